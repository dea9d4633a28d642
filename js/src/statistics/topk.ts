// The largest scores of an image, selected on the CPU: if there are few scores to read, or the device cannot select
// them.
import type { TopK } from "../plan/runtime.ts";

/**
 * The largest of `scores` in descending order. NaN counts as the largest; of equal scores the first one comes first.
 */
export function topk(scores: Float32Array, count: number): TopK {
  const before = (a: number, b: number): number => {
    const [one = 0, other = 0] = [scores[a], scores[b]];
    // The difference of two NaN, or of two equal infinities, is NaN, which is falsy: they rank as equal.
    return Number(Number.isNaN(other)) - Number(Number.isNaN(one)) || other - one || a - b;
  };
  const indices = Array.from(scores.keys()).sort(before).slice(0, count);
  return { indices, scores: indices.map((place) => scores[place] ?? Number.NaN) };
}
