// What a network makes of the examples that are watched: pictures, classes, or numbers.

import { clippedBeyond } from "../../../pictures/clipping.ts";
import { MAGENTA } from "../../../pictures/colortables.ts";
import type { Value } from "../../../plan/schema.ts";
import type { ColorLimits, ImageChoice } from "../../../state/colors.ts";
import { reducedHere, summary } from "../../../statistics/summary.ts";
import { imageEnds } from "../../../views/image_ends.ts";
import type { Course } from "../records.ts";
import type { Examples } from "../state.ts";

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

/** What a number of a picture is marked as: not a number, infinite, or beyond black and white. */
type Flaw = "nan" | "inf" | "above" | "below" | null;

/** The flaw of a place, in the order in which webgl/shaders/image.glsl marks them. */
function flawOf(numbers: readonly number[], ends: ColorLimits): Flaw {
  if (numbers.some(Number.isNaN)) return "nan";
  if (!numbers.every(Number.isFinite)) return "inf";
  const { low, high } = clippedBeyond(ends);
  if (numbers.some((one) => one > high)) return "above";
  return numbers.some((one) => one < low) ? "below" : null;
}

const numbersAt = (values: Float32Array, { channels, height, width }: Frame, at: number) =>
  Array.from({ length: channels }, (_, c) => values[c * height * width + at] ?? 0);

/** Whether a picture has marks, for which its pixels have to be large. */
export function isMarked(values: Float32Array, frame: Frame, ends: ColorLimits): boolean {
  const places = frame.height * frame.width;
  for (let at = 0; at < places; at++) {
    if (flawOf(numbersAt(values, frame, at), ends) !== null) return true;
  }
  return false;
}

const [BLACK, WHITE] = [
  [0, 0, 0],
  [255, 255, 255],
] as const;

/** The ink of a mark at a pixel, as webgl/shaders/image.glsl has it; null between the dots. */
function inkOf(flaw: Flaw, x: number, y: number): readonly number[] | null {
  if (flaw === "nan") return (x + y) % 3 === 2 ? BLACK : MAGENTA;
  if (flaw === "inf") return MAGENTA;
  const isDot = y % 4 === 0 && (x + y / 2) % 4 === 0;
  return flaw === null || !isDot ? null : flaw === "above" ? BLACK : WHITE;
}

/** Paints a picture of `times` pixels a number, between black and white, with what lies beyond them marked. */
export function paintPicture(
  picture: ImageData,
  values: Float32Array,
  frame: Frame,
  ends: ColorLimits,
  times = 1,
): void {
  const { channels, height, width } = frame;
  const by = 255 / (ends.high - ends.low || 1);
  for (let at = 0; at < height * width; at++) {
    const numbers = numbersAt(values, frame, at);
    const flaw = flawOf(numbers, ends);
    const colours = [0, 1, 2].map((c) => {
      const number = numbers[channels === 3 ? c : 0] ?? 0;
      return Math.round((number - ends.low) * by);
    });
    const [left, top] = [(at % width) * times, Math.floor(at / width) * times];
    for (let y = top; y < top + times; y++) {
      for (let x = left; x < left + times; x++) {
        picture.data.set([...(inkOf(flaw, x, y) ?? colours), 255], 4 * (y * width * times + x));
      }
    }
  }
}
