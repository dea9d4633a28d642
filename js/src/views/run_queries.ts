// Numbers that views ask of a session, each asked once per run: statistics, and values for a pointer.

import type { ClippedCounts, Histogram, Session, Statistics, TopK } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import type { ViewerState } from "../state.ts";
import { topk } from "../statistics/topk.ts";

/** What a histogram is of: one channel or all, in so many bins. */
export interface HistogramQuery {
  readonly bins: number;
  readonly channel?: number;
}

export interface RunQueries {
  statistics(key: string, image: number): Promise<Statistics | null>;
  histogram(key: string, image: number, spread: HistogramQuery): Promise<Histogram | null>;
  /** How many numbers of one image lie beyond a range. */
  countClipped(
    key: string,
    image: number,
    range: { low: number; high: number },
  ): Promise<ClippedCounts | null>;
  /** The largest scores of one image of a vector. */
  topk(key: string, image: number, count: number): Promise<TopK | null>;
  /** The likeliest channel of each place of one image, -1 for none; undefined where it is to be found in all elements. */
  argmax(key: string, image: number): Promise<Float32Array | undefined | null>;
  /** All elements of a value or parameter; null when there is no run yet, or it is too large to bring here. */
  read(key: string): Promise<Float32Array | null>;
}

// A pointer over a map is no reason to move more than this through the read-back.
const MAX_READ_ELEMENTS = 16e6;

/** Whether a value is small enough to be brought here. */
export const isReadable = (value: Value): boolean => value.readback.count <= MAX_READ_ELEMENTS;

// Expected when a context is lost or a viewer closes while somebody waits; the status says so.
const EXPECTED_ERRORS = new Set(["ContextLostError", "SessionClosed"]);
export const isExpectedError = (error: unknown): boolean =>
  error instanceof Error && EXPECTED_ERRORS.has(error.name);

/** Whether a latent skips the layer that would compute a value, so that it has none now. */
export const isSkipped = (session: Session | null, key: string): boolean =>
  session?.value(key) === undefined &&
  (session?.plan.values.some((value) => value.key === key) ?? false);

export function createRunQueries(state: ViewerState): RunQueries {
  let session: Session | null = null;
  let sequence = -1;
  let cache = new Map<string, Promise<unknown>>();

  /** The one answer of this run, asked for once. */
  function once<T>(
    what: string,
    key: string,
    ask: (session: Session) => Promise<T>,
  ): Promise<T | null> {
    const now = state.session.peek();
    if (now === null || now.sequence === 0 || isSkipped(now, key)) return Promise.resolve(null);
    const name = `${what} ${key}`;
    if (now !== session || now.sequence !== sequence) {
      session = now;
      sequence = now.sequence;
      cache = new Map();
    }
    const known = cache.get(name) as Promise<T | null> | undefined;
    if (known !== undefined) return known;
    const asked = ask(now).catch((error: unknown) => {
      cache.delete(name);
      if (isExpectedError(error) || isSkipped(now, key)) return null;
      throw error;
    });
    cache.set(name, asked);
    return asked;
  }

  async function read(key: string): Promise<Float32Array | null> {
    const plan = state.plan.peek();
    const value =
      state.session.peek()?.value(key) ?? plan?.parameters.find((one) => one.key === key);
    if (value === undefined || !isReadable(value)) return null;
    // Not `read`, which holds the page for all that the device has to do before.
    const [width, height] = value.readback.draw_pass.viewport;
    return once("read", key, async (now) => {
      const texels = await now.sample(key, [[0, 0, width, height]]);
      return texels.subarray(0, value.readback.count);
    });
  }

  return {
    statistics: (key, image) =>
      once(`statistics ${image}`, key, (now) => now.statistics(key, image)),
    histogram: (key, image, { bins, channel }) =>
      once(`histogram ${image} ${bins} ${channel}`, key, (now) =>
        now.histogram(key, bins, image, channel),
      ),
    countClipped: (key, image, range) =>
      once(`clipped ${image} ${range.low} ${range.high}`, key, (now) =>
        now.countClipped(key, range, image),
      ),
    async topk(key, image, count) {
      const picked = await once(`largest ${image} ${count}`, key, (now) =>
        now.topk(key, count, image),
      );
      if (picked) return picked;
      const all = await read(key);
      const scores = state.session.peek()?.value(key)?.nchw[1] ?? 0;
      return all && topk(all.subarray(image * scores, (image + 1) * scores), count);
    },
    argmax: (key, image) => once(`likeliest ${image}`, key, (now) => now.argmax(key, image)),
    read,
  };
}
