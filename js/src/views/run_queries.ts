// Queries of a session by views, each sent once per run: statistics, and values for tooltips.

import type { ClippedCounts, Histogram, Session, Statistics, TopK } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import type { ViewerState } from "../state.ts";
import { topk } from "../statistics/topk.ts";

/** The subject of a histogram: one channel or all, and the number of bins. */
export interface HistogramQuery {
  readonly bins: number;
  readonly channel?: number;
}

export interface RunQueries {
  statistics(key: string, image: number): Promise<Statistics | null>;
  histogram(key: string, image: number, query: HistogramQuery): Promise<Histogram | null>;
  /** Count the elements of one image that are outside a range. */
  countClipped(
    key: string,
    image: number,
    range: { low: number; high: number },
  ): Promise<ClippedCounts | null>;
  /** The largest scores of a vector, for one image. */
  topk(key: string, image: number, count: number): Promise<TopK | null>;
  /**
   * The most likely channel of each pixel of one image, -1 for none; undefined if the caller must compute it from all
   * elements.
   */
  argmax(key: string, image: number): Promise<Float32Array | undefined | null>;
  /** All elements of a value or parameter; null before the first run, or if the value is too large to read back. */
  read(key: string): Promise<Float32Array | null>;
}

// A tooltip must not read back more than this.
const MAX_READ_ELEMENTS = 16e6;

/** Whether a value is small enough to be read back. */
export const isReadable = (value: Value): boolean => value.readback.count <= MAX_READ_ELEMENTS;

// Expected if the context is lost or the viewer closes during a query; the status line shows it.
const EXPECTED_ERRORS = new Set(["ContextLostError", "SessionClosed"]);
export const isExpectedError = (error: unknown): boolean =>
  error instanceof Error && EXPECTED_ERRORS.has(error.name);

/** Whether a latent skips the layer that computes a value, so that the value does not exist now. */
export const isSkipped = (session: Session | null, key: string): boolean =>
  session?.value(key) === undefined &&
  (session?.plan.values.some((value) => value.key === key) ?? false);

export function createRunQueries(state: ViewerState): RunQueries {
  let session: Session | null = null;
  let sequence = -1;
  let cache = new Map<string, Promise<unknown>>();

  /** Send a query once per run and cache its promise. */
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
    // Not `read`, which blocks the page until the GPU has finished all earlier work.
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
