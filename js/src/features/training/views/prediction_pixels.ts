// Predictions for the fixed examples as pictures, classes, or numbers.

import { clippingLimits } from "../../../pictures/clipping.ts";
import { NON_FINITE_COLOR } from "../../../pictures/colortables.ts";
import type { Value } from "../../../plan/schema.ts";
import type { ColorLimits, ImageRangeChoice } from "../../../state/colors.ts";
import { reduceChannelsOnCpu, summarizeChannels } from "../../../statistics/summary.ts";
import { imageLimits } from "../../../views/image_limits.ts";
import type { TrainingConfig } from "../records.ts";
import type { FixedExampleData } from "../state.ts";

/** The size of a picture; `pictureShape` returns null if a shape isn't one. */
export interface PictureShape {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
}

export function pictureShape(shape: readonly number[]): PictureShape | null {
  const [channels = 0, height = 0, width = 0] = shape;
  const isOne = shape.length === 3 && (channels === 1 || channels === 3);
  return isOne && height >= 4 && width >= 4 ? { channels, height, width } : null;
}

export const elementCount = (shape: readonly number[]): number =>
  shape.reduce((product, one) => product * one, 1);

/** How predictions are shown. */
export type PredictionKind = "pictures" | "classes" | "numbers";

export function predictionKind(
  config: TrainingConfig,
  { outputShape, targets, count }: FixedExampleData,
): PredictionKind {
  if (config.has_accuracy && outputShape.length === 1 && targets.length === count) return "classes";
  return !config.has_accuracy && pictureShape(outputShape) !== null ? "pictures" : "numbers";
}

export interface TopClass {
  readonly index: number;
  /** The class's softmax probability. */
  readonly probability: number;
}

/** The class with the largest score. `isSoftmax`: the scores are softmax probabilities already. */
export function topClass(scores: Float32Array, isSoftmax: boolean): TopClass {
  let index = 0;
  for (const [k, score] of scores.entries()) if (score > (scores[index] ?? 0)) index = k;
  const most = scores[index] ?? 0;
  if (isSoftmax) return { index, probability: most };
  const sum = scores.reduce((total, score) => total + Math.exp(score - most), 0);
  return { index, probability: 1 / sum };
}

/** The black and white levels of pictures: the same as for the network's value, over all values shown. */
export function pictureLimits(
  values: Float32Array,
  value: Pick<Value, "value_range">,
  choice: ImageRangeChoice | undefined,
): ColorLimits {
  const nchw = [1, 1, 1, values.length] as const;
  return (
    imageLimits(value, summarizeChannels(reduceChannelsOnCpu(values, nchw, 0)), choice) ?? {
      low: 0,
      high: 1,
    }
  );
}

/** The mark of a value in a picture: NaN, infinite, or above or below the range. */
type RangeMark = "nan" | "inf" | "above" | "below" | null;

/** The mark of a pixel, in the priority order of webgl/shaders/image.glsl. */
function rangeMark(channelValues: readonly number[], limits: ColorLimits): RangeMark {
  if (channelValues.some(Number.isNaN)) return "nan";
  if (!channelValues.every(Number.isFinite)) return "inf";
  const { low, high } = clippingLimits(limits);
  if (channelValues.some((one) => one > high)) return "above";
  return channelValues.some((one) => one < low) ? "below" : null;
}

const channelValuesAt = (
  values: Float32Array,
  { channels, height, width }: PictureShape,
  pixel: number,
) => Array.from({ length: channels }, (_, c) => values[c * height * width + pixel] ?? 0);

/** Whether a picture has marks, which need large pixels. */
export function hasMarks(values: Float32Array, shape: PictureShape, limits: ColorLimits): boolean {
  const places = shape.height * shape.width;
  for (let at = 0; at < places; at++) {
    if (rangeMark(channelValuesAt(values, shape, at), limits) !== null) return true;
  }
  return false;
}

const [BLACK, WHITE] = [
  [0, 0, 0],
  [255, 255, 255],
] as const;

/** The colour of a mark at a pixel, as in webgl/shaders/image.glsl; null between the dots. */
function markColor(mark: RangeMark, x: number, y: number): readonly number[] | null {
  if (mark === "nan") return (x + y) % 3 === 2 ? BLACK : NON_FINITE_COLOR;
  if (mark === "inf") return NON_FINITE_COLOR;
  const isDot = y % 4 === 0 && (x + y / 2) % 4 === 0;
  return mark === null || !isDot ? null : mark === "above" ? BLACK : WHITE;
}

/** Paint a picture with `scale` pixels per value, scaled between black and white; values out of range are marked. */
export function paintPicture(
  picture: ImageData,
  values: Float32Array,
  shape: PictureShape,
  limits: ColorLimits,
  scale = 1,
): void {
  const { channels, height, width } = shape;
  const by = 255 / (limits.high - limits.low || 1);
  for (let at = 0; at < height * width; at++) {
    const numbers = channelValuesAt(values, shape, at);
    const mark = rangeMark(numbers, limits);
    const colours = [0, 1, 2].map((c) => {
      const number = numbers[channels === 3 ? c : 0] ?? 0;
      return Math.round((number - limits.low) * by);
    });
    const [left, top] = [(at % width) * scale, Math.floor(at / width) * scale];
    for (let y = top; y < top + scale; y++) {
      for (let x = left; x < left + scale; x++) {
        picture.data.set([...(markColor(mark, x, y) ?? colours), 255], 4 * (y * width * scale + x));
      }
    }
  }
}
