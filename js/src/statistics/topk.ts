// The largest scores of an image, picked out here: where few are to be brought, or the device cannot pick them.
import type { TopK } from "../plan/runtime.ts";

/** The largest of `scores`, from the largest on; NaN counts as the largest, of equal ones the first is. */
export function topk(scores: Float32Array, count: number): TopK {
  const before = (a: number, b: number): number => {
    const [one = 0, other = 0] = [scores[a], scores[b]];
    // Between two that are NaN, or one infinity, the difference is NaN: they are equal.
    return Number(Number.isNaN(other)) - Number(Number.isNaN(one)) || other - one || a - b;
  };
  const indices = Array.from(scores.keys()).sort(before).slice(0, count);
  return { indices, scores: indices.map((place) => scores[place] ?? Number.NaN) };
}
