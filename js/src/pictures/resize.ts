// Converts a picture to an input: the fitted region, and Pillow's resampling weights. No GL.
import type { Input } from "../plan/schema.ts";

/** The result of Pillow's `picture.resize((width, height), BILINEAR, box)`, and its position in the input. */
export interface ResizeGeometry {
  /** Left, top, right and bottom, in the picture. */
  readonly sourceBox: readonly [number, number, number, number];
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly top: number;
}

/** Channels, height and width of one example of an input; a missing axis has length 1. */
export function channelsAndSize({
  shape,
  layout,
}: Pick<Input, "shape" | "layout">): readonly [number, number, number] {
  if (layout === "NHWC") {
    const [, height = 1, width = 1, channels = 1] = shape;
    return [channels, height, width];
  }
  const [height = 1, width = 1] = shape.length > 3 ? shape.slice(-2) : [1, shape.at(-1) ?? 1];
  const [examples = 1] = shape.length > 1 ? shape : [1];
  const count = shape.reduce((all, side) => all * side, 1);
  return [count / Math.max(1, examples * height * width), height, width];
}

/**
 * crop: as Pillow's `ImageOps.fit(picture, size, bleed=(1 - crop_fraction) / 2)`. letterbox: as `ImageOps.pad`, but the
 * shorter side keeps at least one pixel. stretch: `crop_fraction` of both sides. The second parameter is the picture's
 * size.
 */
export function fitPicture(
  input: Pick<Input, "shape" | "layout" | "fit" | "crop_fraction">,
  [across, down]: readonly [number, number],
): ResizeGeometry {
  const { fit, crop_fraction } = input;
  const [, height, width] = channelsAndSize(input);
  if (fit === "letterbox") {
    const [flat, wide] = [across / down, width / height];
    const w = flat < wide ? Math.max(1, roundHalfEven((across / down) * height)) : width;
    const h = flat > wide ? Math.max(1, roundHalfEven((down / across) * width)) : height;
    const [left, top] = [roundHalfEven((width - w) / 2), roundHalfEven((height - h) / 2)];
    return { sourceBox: [0, 0, across, down], width: w, height: h, left, top };
  }
  let [w, h] = [across * crop_fraction, down * crop_fraction];
  if (fit === "crop") {
    const wide = width / height;
    if (w / h > wide) w = wide * h;
    else h = w / wide;
  }
  const [x, y] = [(across - w) / 2, (down - h) / 2];
  const sourceBox = [x, y, Math.min(across, x + w), Math.min(down, y + h)] as const;
  return { sourceBox, width, height, left: 0, top: 0 };
}

/** Round halves to even, as Python's round(). */
function roundHalfEven(x: number): number {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2) : Math.round(x);
}

/** Resampling of one axis: for each output pixel, the number of input pixels, the first of them, and their weights. */
export interface ResampleTaps {
  readonly firstPixels: readonly number[];
  readonly pixelCounts: readonly number[];
  /** Integers in units of 2⁻²²; one list for each output pixel. */
  readonly weights: readonly (readonly number[])[];
}

/** Fractional bits of a weight, as in Pillow for 8-bit pictures. */
export const WEIGHT_FRACTION_BITS = 22;

/**
 * Pillow's `precompute_coeffs` of its bilinear filter: resample the pixels from `low` to `high`, of `inputLength`, to
 * `outputLength`. As in Pillow, the box is in single precision and everything else in double.
 */
export function resampleTaps(
  inputLength: number,
  low: number,
  high: number,
  outputLength: number,
): ResampleTaps {
  const from = Math.fround(low);
  const scale = Math.fround(Math.fround(high) - from) / outputLength;
  const support = Math.max(1, scale);
  const firstPixels: number[] = [];
  const pixelCounts: number[] = [];
  const weights: number[][] = [];
  for (let k = 0; k < outputLength; k++) {
    const center = from + (k + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - support + 0.5));
    const last = Math.min(inputLength, Math.trunc(center + support + 0.5));
    const own = Array.from({ length: last - first }, (_, i) =>
      Math.max(0, 1 - Math.abs((i + first - center + 0.5) / support)),
    );
    const sum = own.reduce((a, b) => a + b, 0) || 1;
    firstPixels.push(first);
    pixelCounts.push(own.length);
    weights.push(own.map((one) => Math.trunc((one / sum) * 2 ** WEIGHT_FRACTION_BITS + 0.5)));
  }
  return { firstPixels, pixelCounts, weights };
}
