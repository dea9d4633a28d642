// What a network makes of the examples that are watched: pictures, classes, or numbers.
import { reducedHere, summary } from "../../gl/summary.ts";
import type { Value } from "../../plan.ts";
import type { ColorLimits, ImageChoice } from "../../state/colors.ts";
import type { Examples } from "../../state/training.ts";
import type { Course } from "../../training.ts";
import { imageEnds } from "../image_ends.ts";

/** A picture's size, if an array of this shape is one. */
export interface Frame {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
}

export function frameOf(shape: readonly number[]): Frame | null {
  const [channels = 0, height = 0, width = 0] = shape;
  const isOne = shape.length === 3 && (channels === 1 || channels === 3);
  return isOne && height >= 4 && width >= 4 ? { channels, height, width } : null;
}

export const sizeOf = (shape: readonly number[]): number =>
  shape.reduce((product, one) => product * one, 1);

/** How predictions are shown. */
export type Kind = "pictures" | "classes" | "numbers";

export function kindOf(course: Course, { outputShape, targets, count }: Examples): Kind {
  if (course.accuracy && outputShape.length === 1 && targets.length === count) return "classes";
  return !course.accuracy && frameOf(outputShape) !== null ? "pictures" : "numbers";
}

export interface Guess {
  readonly best: number;
  /** What a softmax gives it. */
  readonly share: number;
}

/** The class with the largest of these scores; `shares`: they are its softmax already. */
export function guessOf(scores: Float32Array, shares: boolean): Guess {
  let best = 0;
  for (const [k, score] of scores.entries()) if (score > (scores[best] ?? 0)) best = k;
  const most = scores[best] ?? 0;
  if (shares) return { best, share: most };
  const sum = scores.reduce((total, score) => total + Math.exp(score - most), 0);
  return { best, share: 1 / sum };
}

/** Black and white of pictures: as of all that is shown of the network's value. */
export function lightOf(
  values: Float32Array,
  value: Pick<Value, "limits">,
  choice: ImageChoice | undefined,
): ColorLimits {
  const nchw = [1, 1, 1, values.length] as const;
  return imageEnds(value, summary(reducedHere(values, nchw, 0)), choice) ?? { low: 0, high: 1 };
}

export function paintPicture(
  picture: ImageData,
  values: Float32Array,
  { channels, height, width }: Frame,
  { low, high }: { low: number; high: number },
): void {
  const by = 255 / (high - low || 1);
  for (let at = 0; at < height * width; at++) {
    for (let c = 0; c < 3; c++) {
      const value = values[(channels === 3 ? c * height * width : 0) + at] ?? 0;
      picture.data[4 * at + c] = Math.round((value - low) * by);
    }
    picture.data[4 * at + 3] = 255;
  }
}
