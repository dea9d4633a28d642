// What a network makes of the examples that are watched: pictures, classes, or numbers.
import type { Examples } from "../../state/training.ts";
import type { Course } from "../../training.ts";

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
  /** What the softmax gives it. */
  readonly share: number;
}

/** The class with the largest of these scores. */
export function guessOf(scores: Float32Array): Guess {
  let best = 0;
  for (const [k, score] of scores.entries()) if (score > (scores[best] ?? 0)) best = k;
  const most = scores[best] ?? 0;
  const sum = scores.reduce((total, score) => total + Math.exp(score - most), 0);
  return { best, share: 1 / sum };
}

/** Black and white of pictures: 0 and 1 for those that are within them, else what their numbers span. */
export function lightOf(values: Float32Array): { low: number; high: number } {
  let [low, high] = [0, 1];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return { low, high };
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
