// Masks over positions, and mappings that carry a mask from consumers to the elements they depend on, and back.
import type { AxisWindow, FieldMap } from "../plan/schema.ts";
import { PADDED_INDEX_BY_MODE } from "./padding_modes.ts";
import { coordinates, sizeOf } from "./tensor.ts";

/** 1 for each marked position of a value, in row-major order. */
export type Mask = Uint8Array;

/** For each position o along an axis, its positions on another axis: items[offsets[o]] to items[offsets[o + 1]]. */
interface IndexLists {
  readonly offsets: Int32Array;
  readonly items: Int32Array;
}

/**
 * How one target axis depends on a source axis: through index lists (null: the same position), or on no axis (any
 * position).
 */
interface AxisMapping {
  readonly sourceAxis: number;
  readonly lists: IndexLists | null;
}

/** Mapping from a mask over positions of one shape to a mask over another shape. */
export interface MaskMapping {
  readonly sourceSizes: readonly number[];
  readonly targetSizes: readonly number[];
  readonly axes: readonly AxisMapping[];
}

/** The input positions that each of a consumer's positions depends on, along one axis. */
function dependencyIndices(
  axisWindow: AxisWindow,
  outputSize: number,
  inputSize: number,
): IndexLists {
  const { kernel, stride, dilation, pad_begin, transposed, padding, table } = axisWindow;
  const offsets = new Int32Array(outputSize + 1);
  const items: number[] = [];
  if (transposed) {
    const windows = { ...axisWindow, transposed: false, padding: "zeros" } as const;
    return invertLists(dependencyIndices(windows, inputSize, outputSize), outputSize);
  }
  const repeat = PADDED_INDEX_BY_MODE[padding];
  for (let o = 0; o < outputSize; o++) {
    if (table.length > 0) items.push(...(table[o] ?? []));
    else {
      for (let t = 0; t < kernel; t++) {
        const at = repeat(o * stride - pad_begin + t * dilation, inputSize);
        if (at >= 0 && at < inputSize) items.push(at);
      }
    }
    offsets[o + 1] = items.length;
  }
  return { offsets, items: Int32Array.from(items) };
}

/** Invert index lists: for each position below `size`, the positions that list it. */
function invertLists({ offsets, items }: IndexLists, size: number): IndexLists {
  const counts = new Int32Array(size + 1);
  for (const item of items) counts[item + 1] = (counts[item + 1] ?? 0) + 1;
  for (let k = 0; k < size; k++) counts[k + 1] = (counts[k + 1] ?? 0) + (counts[k] ?? 0);
  const next = counts.slice();
  const found = new Int32Array(items.length);
  for (let o = 0; o + 1 < offsets.length; o++) {
    for (let k = offsets[o] ?? 0; k < (offsets[o + 1] ?? 0); k++) {
      const item = items[k] ?? 0;
      const at = next[item] ?? 0;
      found[at] = o;
      next[item] = at + 1;
    }
  }
  return { offsets: counts, items: found };
}

/** Whether each position depends on the same position only. */
export const isIdentityAxis = (
  axisWindow: AxisWindow,
  outputSize: number,
  inputSize: number,
): boolean =>
  outputSize === inputSize &&
  axisWindow.kernel === 1 &&
  axisWindow.stride === 1 &&
  axisWindow.pad_begin === 0 &&
  axisWindow.table.length === 0;

/** Mappings from consumers to what they depend on (`toInputs`), and back (`toConsumers`). */
export function createMappings({ output_sizes, input_sizes, windows }: FieldMap): {
  readonly toInputs: MaskMapping;
  readonly toConsumers: MaskMapping;
} {
  const lists = windows.map((along, k) => {
    const [length = 1, size = 1] = [output_sizes[along.axis], input_sizes[k]];
    return along.axis < 0 || isIdentityAxis(along, length, size)
      ? null
      : dependencyIndices(along, length, size);
  });
  const toInputs = windows.map(
    (along, k): AxisMapping => ({ sourceAxis: along.axis, lists: lists[k] ?? null }),
  );
  const toConsumers = output_sizes.map((length, axis): AxisMapping => {
    const from = windows.findIndex((along) => along.axis === axis);
    const own = lists[from] ?? null;
    return {
      sourceAxis: from,
      lists: own && invertLists(own, length === 0 ? 0 : (input_sizes[from] ?? 1)),
    };
  });
  return {
    toInputs: { sourceSizes: output_sizes, targetSizes: input_sizes, axes: toInputs },
    toConsumers: { sourceSizes: input_sizes, targetSizes: output_sizes, axes: toConsumers },
  };
}

/** Map one axis of a mask through index lists (null: reduce the axis to one position). */
function mapAxis(
  mask: Mask,
  outer: number,
  sourceSize: number,
  inner: number,
  targetSize: number,
  lists: IndexLists | null,
): Mask {
  const found = new Uint8Array(outer * targetSize * inner);
  for (let a = 0; a < outer; a++) {
    for (let o = 0; o < sourceSize; o++) {
      const start = (a * sourceSize + o) * inner;
      const row = mask.subarray(start, start + inner);
      if (!row.includes(1)) continue;
      const first = lists === null ? 0 : (lists.offsets[o] ?? 0);
      const last = lists === null ? 1 : (lists.offsets[o + 1] ?? 0);
      for (let k = first; k < last; k++) {
        const at = (a * targetSize + (lists === null ? 0 : (lists.items[k] ?? 0))) * inner;
        for (let i = 0; i < inner; i++) if (row[i] === 1) found[at + i] = 1;
      }
    }
  }
  return found;
}

/** Map a mask to its dependencies or dependents, axis by axis, since a receptive field is a product of axes. */
export function mapMask(
  { sourceSizes: from, targetSizes: to, axes }: MaskMapping,
  mask: Mask,
): Mask {
  const sizes = [...from];
  let found = mask;
  for (const [axis, length] of from.entries()) {
    const k = axes.findIndex((side) => side.sourceAxis === axis);
    const lists = axes[k]?.lists ?? null;
    if (k >= 0 && lists === null) continue;
    const size = k < 0 ? 1 : (to[k] ?? 1);
    const inner = sizeOf(sizes.slice(axis + 1));
    found = mapAxis(found, sizeOf(sizes.slice(0, axis)), length, inner, size, lists);
    sizes[axis] = size;
  }
  const strides = sizes.map((_, axis) => sizeOf(sizes.slice(axis + 1)));
  const steps = axes.map((side) => (side.sourceAxis < 0 ? 0 : (strides[side.sourceAxis] ?? 0)));
  const kept = sizeOf(sizes) === sizeOf(to);
  if (kept && axes.every((side, k) => side.sourceAxis === k)) return found;
  return broadcastMask(found, to, steps);
}

/** Expand a mask by one stride per target axis; stride 0 repeats it along that axis. */
function broadcastMask(mask: Mask, sizes: readonly number[], strides: readonly number[]): Mask {
  const result = new Uint8Array(sizeOf(sizes));
  const at = sizes.map(() => 0);
  let place = 0;
  for (let i = 0; i < result.length; i++) {
    result[i] = mask[place] ?? 0;
    for (let axis = sizes.length - 1; axis >= 0; axis--) {
      const [own = 0, size = 1, step = 0] = [at[axis], sizes[axis], strides[axis]];
      place += step;
      at[axis] = own + 1;
      if (own + 1 < size) break;
      place -= step * size;
      at[axis] = 0;
    }
  }
  return result;
}

export function unionMasks(a: Mask | undefined, b: Mask): Mask {
  if (a === undefined) return b;
  const found = a.slice();
  for (let i = 0; i < b.length; i++) if (b[i] === 1) found[i] = 1;
  return found;
}

/** The mask of the one position of an element, by its coordinates. */
export function elementMask(
  shape: readonly number[],
  positionAxes: readonly number[],
  coords: readonly number[],
): Mask {
  const sizes = positionAxes.map((axis) => shape[axis] ?? 1);
  const mask = new Uint8Array(sizeOf(sizes));
  mask[positionAxes.reduce((sum, axis, k) => sum * (sizes[k] ?? 1) + (coords[axis] ?? 0), 0)] = 1;
  return mask;
}

/** The pixels of a picture with a marked position in any channel. */
export function pixelMask(
  mask: Mask,
  shape: readonly number[],
  positionAxes: readonly number[],
  nchw: readonly [number, number, number, number],
): Mask {
  const [images, channels, height, width] = nchw;
  const pixels = height * width;
  const isTrailing = positionAxes.every(
    (axis, k) => axis === shape.length - positionAxes.length + k,
  );
  if (isTrailing && mask.length === pixels) return mask;
  const found = new Uint8Array(pixels);
  const sizes = positionAxes.map((axis) => shape[axis] ?? 1);
  for (let i = 0; i < images * channels * pixels; i++) {
    const at = coordinates(shape, i);
    const place = positionAxes.reduce((sum, axis, k) => sum * (sizes[k] ?? 1) + (at[axis] ?? 0), 0);
    if (mask[place] === 1) found[i % pixels] = 1;
  }
  return found;
}
