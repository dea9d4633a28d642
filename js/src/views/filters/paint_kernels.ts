// Paints kernels on the CPU: as pixels in a colour map, or as curves. Lengths are canvas pixels.
import { NON_FINITE_COLOR } from "../../pictures/colortables.ts";

type ColorTable = (place: number) => readonly [number, number, number];

/** A kernel's weights, and the top left corner of its picture. */
interface PlacedKernel {
  readonly weights: Float32Array;
  readonly left: number;
  readonly top: number;
}

const BLACK = [0, 0, 0] as const;
const GREY = "rgb(128 128 128 / 0.5)";
/** The least canvas pixels per weight for which a kernel has an outline. */
const MIN_OUTLINED_WEIGHT_SIZE = 4;

/** Paint rows of `columns` weights, each a square of `pixelSize` pixels; `maxAbs` has the colour map's full colour. */
export function paintColors(
  picture: ImageData,
  { weights, left, top }: PlacedKernel,
  columns: number,
  pixelSize: number,
  maxAbs: number,
  colorAt: ColorTable,
): void {
  for (const [k, value] of weights.entries()) {
    const shade = colorAt(maxAbs > 0 ? 0.5 + (0.5 * value) / maxAbs : 0.5);
    const color = Number.isFinite(value) ? shade : NON_FINITE_COLOR;
    const corner = {
      x: left + (k % columns) * pixelSize,
      y: top + Math.floor(k / columns) * pixelSize,
    };
    for (let y = 0; y < pixelSize; y++) {
      for (let x = 0; x < pixelSize && corner.x + x < picture.width; x++) {
        // Black stripes over magenta mark a NaN, as in the maps.
        const striped = Number.isNaN(value) && (x + y) % 4 < 2;
        const [r, g, b] = striped ? BLACK : color;
        const at = ((corner.y + y) * picture.width + corner.x + x) * 4;
        picture.data[at] = r;
        picture.data[at + 1] = g;
        picture.data[at + 2] = b;
        picture.data[at + 3] = 255;
      }
    }
  }
}

/** Paint the kernel's outline: weights near zero have the colour of the page. Too small weights have no outline. */
export function paintOutline(
  context: CanvasRenderingContext2D,
  { weights, left, top }: PlacedKernel,
  columns: number,
  pixelSize: number,
): void {
  if (pixelSize < MIN_OUTLINED_WEIGHT_SIZE) return;
  const [width, height] = [columns * pixelSize, (weights.length / columns) * pixelSize];
  context.strokeStyle = GREY;
  context.lineWidth = 1;
  context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
}

// Positions of curves.glsl's ink colours, and of zero, in the signed colour map.
const [POSITIVE, ZERO, NEGATIVE] = [0.86, 0.5, 0.14] as const;
const CURVE_MARGIN = 1.5;

/** Paint a kernel's weights as straight segments from left to right; the axis is −most to most around a zero line. */
export function paintCurve(
  context: CanvasRenderingContext2D,
  { weights, left, top }: PlacedKernel,
  { width, height }: { readonly width: number; readonly height: number },
  maxAbs: number,
  pixelRatio: number,
  colorAt: ColorTable,
): void {
  const ink = (place: number): string => `rgb(${colorAt(place).join(" ")})`;
  const each = width / weights.length;
  const middle = top + height / 2;
  const reach = (height / 2 - CURVE_MARGIN * pixelRatio) / (maxAbs || 1);
  const line = new Path2D();
  const area = new Path2D();
  // A run of finite weights. The curve extends level before the first and after the last one, so that each weight has
  // its full width.
  const run = (from: number, to: number): void => {
    const points: [number, number][] = [];
    for (let k = from; k < to; k++) {
      const y = middle - (weights[k] ?? 0) * reach;
      if (k === from) points.push([left + k * each, y]);
      points.push([left + (k + 0.5) * each, y]);
      if (k === to - 1) points.push([left + (k + 1) * each, y]);
    }
    for (const [i, [x, y]] of points.entries()) {
      if (i === 0) {
        line.moveTo(x, y);
        area.moveTo(x, middle);
      } else line.lineTo(x, y);
      area.lineTo(x, y);
    }
    area.lineTo(left + to * each, middle);
    area.closePath();
  };
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.fillStyle = ink(ZERO);
  context.fillRect(left, top, width, height);
  const hair = Math.max(1, Math.round(pixelRatio));
  context.fillStyle = GREY;
  context.fillRect(left, Math.round(middle - hair / 2), width, hair);
  for (let from = 0, k = 0; k <= weights.length; k++) {
    if (k < weights.length && Number.isFinite(weights[k])) continue;
    if (k > from) run(from, k);
    if (k < weights.length)
      paintNonFinite(context, left + k * each, top, each, height, weights[k] ?? 0);
    from = k + 1;
  }
  context.lineWidth = Math.max(1, 1.4 * pixelRatio);
  context.lineJoin = "round";
  for (const [place, from] of [
    [POSITIVE, top],
    [NEGATIVE, middle],
  ] as const) {
    context.save();
    context.beginPath();
    context.rect(left, from, width, height / 2);
    context.clip();
    context.fillStyle = context.strokeStyle = ink(place);
    context.globalAlpha = 0.2;
    context.fill(area);
    context.globalAlpha = 1;
    context.stroke(line);
    context.restore();
  }
  context.strokeStyle = GREY;
  context.lineWidth = 2 * hair; // the outer half is clipped
  context.strokeRect(left, top, width, height);
  context.restore();
}

/** Paint a weight that is not finite, over its full width. */
function paintNonFinite(
  context: CanvasRenderingContext2D,
  left: number,
  top: number,
  width: number,
  height: number,
  number: number,
): void {
  context.fillStyle = `rgb(${NON_FINITE_COLOR.join(" ")})`;
  context.fillRect(left, top, width, height);
  if (!Number.isNaN(number)) return;
  context.fillStyle = `rgb(${BLACK.join(" ")})`;
  for (let y = 0; y < height; y += 4) context.fillRect(left, top + y, width, 2);
}
