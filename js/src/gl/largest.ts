// The largest scores of an image, picked out here: where few are to be brought, or the device cannot pick them.
import type { Largest } from "./types.ts";

type Picked = Pick<Largest, "places" | "scores">;

/** The largest of `scores`, from the largest on; NaN counts as the largest, of equal ones the first is. */
export function largestOf(scores: Float32Array, count: number): Picked {
  const before = (a: number, b: number): number => {
    const [one = 0, other = 0] = [scores[a], scores[b]];
    const [isNan, wasNan] = [Number.isNaN(one), Number.isNaN(other)];
    if (isNan || wasNan) return isNan && wasNan ? a - b : isNan ? -1 : 1;
    return one === other ? a - b : one > other ? -1 : 1;
  };
  const places = Array.from(scores.keys()).sort(before).slice(0, count);
  return { places, scores: places.map((place) => scores[place] ?? Number.NaN) };
}
