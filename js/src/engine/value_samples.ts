// Samples of values from one run: requested bands, and matching ranges of equal examples.
import type { Session, TexelSpan } from "../plan/runtime.ts";
import type { PlanHeader, Value } from "../plan/schema.ts";

/** Samples per batch of reads: an eighth of all, but at least this many. Each batch waits for the device once. */
const MIN_READ_BATCH = 32;
const MAX_READ_BATCHES = 8;
/** Texels per sampled range of an example. */
const TEXELS_PER_SPAN = 8;

type Floats = Float32Array<ArrayBuffer>;

export interface SampleRequest {
  readonly key: string;
  readonly spans: readonly TexelSpan[];
}

/** Two examples with the same inputs. */
export type EqualExamples = readonly [first: number, other: number];
/** A value in which the two examples differ. */
export type ExampleMismatch = readonly [key: string, first: number, other: number];

/** The texels of all bands, value by value; undefined as soon as other work takes priority. */
export async function readSamples(
  session: Session,
  requests: readonly SampleRequest[],
  canContinue: () => boolean,
): Promise<Floats[] | undefined> {
  const found: Floats[] = [];
  const count = Math.max(MIN_READ_BATCH, Math.ceil(requests.length / MAX_READ_BATCHES));
  for (let at = 0; at < requests.length; at += count) {
    if (!canContinue()) return undefined;
    const some = requests.slice(at, at + count).map(({ key, spans }) => session.sample(key, spans));
    found.push(...((await Promise.all(some)) as Floats[]));
  }
  return found;
}

/** The last example whose inputs all equal an earlier example's bit by bit; undefined if there is none. */
export function findEqualExamples(
  { batch, inputs }: PlanHeader,
  data: readonly Uint8Array[],
): EqualExamples | undefined {
  const own = data.filter((_, k) => inputs[k]?.shape[0] === batch);
  if (own.length === 0) return undefined;
  for (let other = batch - 1; other > 0; other--)
    for (let first = 0; first < other; first++)
      if (own.every((bytes) => haveSameBytes(bytes, first, other, batch))) return [first, other];
  return undefined;
}

function haveSameBytes(bytes: Uint8Array, first: number, other: number, batch: number): boolean {
  const size = bytes.length / batch;
  for (let k = 0; k < size; k++)
    if (bytes[first * size + k] !== bytes[other * size + k]) return false;
  return true;
}

/** The values whose samples differ between two examples in any bit; undefined as for `readSamples`. */
export async function findMismatches(
  session: Session,
  [first, other]: EqualExamples,
  canContinue: () => boolean,
): Promise<ExampleMismatch[] | undefined> {
  const { values, batch } = session.plan;
  const computed = values.filter(
    ({ kind, layer, shape, readback }) =>
      kind !== "contributed" && layer >= 0 && shape[0] === batch && readback.count >= batch,
  );
  const asked = computed.map((value) => ({ value, places: sampledRanges(value, batch) }));
  const all = asked.flatMap(({ value, places }) =>
    places.flatMap((place) =>
      [first, other].map((example) => rangeSample(value, example, place, batch)),
    ),
  );
  const texels = await readSamples(session, all, canContinue);
  if (texels === undefined) return undefined;
  const found: ExampleMismatch[] = [];
  let at = 0;
  for (const { value, places } of asked) {
    const differ = places.some(([, length], k) => {
      const [a, b] = [first, other].map((_, j) => {
        const { offset } = all[at + 2 * k + j] as RangeSample;
        return texels[at + 2 * k + j]?.subarray(offset, offset + length) ?? [];
      }) as [Float32Array, Float32Array];
      return a.some((one, place) => !Object.is(one, b[place]));
    });
    at += 2 * places.length;
    if (differ) found.push([value.key, first, other]);
  }
  return found;
}

/** The first element and length of an example's sampled ranges: its beginning, middle and end. */
function sampledRanges({ readback }: Value, batch: number): (readonly [number, number])[] {
  const size = readback.count / batch;
  const length = Math.min(size, 4 * TEXELS_PER_SPAN);
  const starts = new Set([0, Math.floor((size - length) / 2), size - length]);
  return [...starts].map((start) => [start, length] as const);
}

interface RangeSample extends SampleRequest {
  /** Elements of the first texel that precede the range. */
  readonly offset: number;
}

function rangeSample(
  { key, readback }: Value,
  example: number,
  [start, length]: readonly [number, number],
  batch: number,
): RangeSample {
  const from = example * (readback.count / batch) + start;
  const [width] = readback.draw_pass.viewport;
  const first = Math.floor(from / 4);
  const end = Math.ceil((from + length) / 4);
  const spans: TexelSpan[] = [];
  for (let texel = first; texel < end; ) {
    const x = texel % width;
    const count = Math.min(end - texel, width - x);
    spans.push([x, Math.floor(texel / width), count]);
    texel += count;
  }
  return { key, spans, offset: from - 4 * first };
}
