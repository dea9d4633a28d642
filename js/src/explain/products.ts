// The sum of products behind one number of a convolution, a transposed convolution or a dense layer.
import type { Layer } from "../plan/schema.ts";
import { coordinates, element, flatIndex, type Tensor } from "./tensor.ts";
import {
  slidingTaps,
  type TapState,
  type TransposedTaps,
  tapState,
  transposedTaps,
  type WindowTaps,
} from "./window.ts";

export interface Product {
  readonly input: number;
  readonly weight: number;
  readonly product: number;
  readonly state: TapState;
  /** "y 1, x 0": the pixel of the map that a padding element repeats. */
  readonly repeatedPixel?: string;
}

/** The products of one input channel, tap by tap. */
export interface ChannelProducts {
  readonly rows: number;
  readonly columns: number;
  readonly cells: readonly Product[];
}

/** All products of one number, computed in double precision from the GPU's inputs and weights. */
export interface Products {
  /** The first of the summed input channels. */
  readonly firstChannel: number;
  /** The contribution of each of these channels. */
  readonly contributions: Float64Array;
  /** The number of products, without those of padding or inserted zeros. */
  readonly productCount: number;
  readonly positiveSum: number;
  readonly negativeSum: number;
  readonly sum: number;
  /** The patch of the k-th channel; restricted to `taps` if passed. */
  channelProducts(k: number, taps?: WindowTaps): ChannelProducts;
}

/** Products of a dense layer. */
export interface DenseProducts extends Products {
  /** The elements of both operands in the k-th product. */
  readonly factorIndices: (k: number) => readonly [number, number];
}

/** Products of a convolution. */
export interface ConvolutionProducts extends Products {
  readonly taps: WindowTaps;
  /** Set for a transposed convolution. */
  readonly transposedTaps: TransposedTaps | null;
}

interface ProductSource {
  readonly firstChannel: number;
  readonly channelCount: number;
  readonly taps: WindowTaps;
  /** The input's element for a tap inside the map. */
  readonly input: (k: number, y: number, x: number) => number;
  readonly weight: (k: number, y: number, x: number) => number;
}

function computeProducts({
  firstChannel,
  channelCount,
  taps: lines,
  input,
  weight,
}: ProductSource): Products {
  const productAt = (k: number, { rows, columns }: WindowTaps, i: number): Product => {
    const row = rows[Math.floor(i / columns.length)];
    const column = columns[i % columns.length];
    if (row === undefined || column === undefined) throw new RangeError("a tap outside its kernel");
    const state = tapState(row, column);
    const number = state === "input" ? input(k, row.inputIndex, column.inputIndex) : 0;
    const factor = weight(k, row.tap, column.tap);
    const found = { input: number, weight: factor, product: number * factor, state };
    const outside = row.outsideIndex !== undefined || column.outsideIndex !== undefined;
    return outside
      ? { ...found, repeatedPixel: `y ${row.inputIndex}, x ${column.inputIndex}` }
      : found;
  };
  const contributions = new Float64Array(channelCount);
  let [productCount, positiveSum, negativeSum, sum] = [0, 0, 0, 0];
  const taps = lines.rows.length * lines.columns.length;
  for (let k = 0; k < channelCount; k++) {
    let own = 0;
    for (let i = 0; i < taps; i++) {
      const { product, state } = productAt(k, lines, i);
      own += product;
      if (state === "input") productCount++;
      if (product < 0) negativeSum += product;
      else positiveSum += product;
    }
    contributions[k] = own;
    sum += own;
  }
  const channelProducts = (k: number, some: WindowTaps = lines): ChannelProducts => {
    const [rows, columns] = [some.rows.length, some.columns.length];
    const cells = Array.from({ length: rows * columns }, (_, i) => productAt(k, some, i));
    return { rows, columns, cells };
  };
  return {
    firstChannel,
    contributions,
    productCount,
    positiveSum,
    negativeSum,
    sum,
    channelProducts,
  };
}

/** Products of Conv and ConvTranspose over 1D or 2D maps; null for volumes. */
export function convolutionProducts(
  layer: Layer,
  x: Tensor,
  weight: Tensor,
  index: number,
): ConvolutionProducts | null {
  const at = coordinates(layer.output_shape, index);
  const [image = 0, output = 0] = at;
  const spatial = x.shape.slice(2);
  const transposed = layer.explanation === "transposed convolution";
  const filterTaps = transposed ? transposedTaps(layer.window, spatial, at) : null;
  const taps =
    filterTaps ??
    (transposed ? null : slidingTaps(layer.window, spatial, at, layer.attributes.padding_mode));
  if (taps === null) return null;
  const groups = groupCount(layer);
  const [, inputs = 1] = x.shape;
  const [, outputs = 1] = layer.output_shape;
  const each = { inputs: inputs / groups, outputs: outputs / groups };
  const group = Math.floor(output / each.outputs);
  const firstChannel = group * each.inputs;
  const [rows, columns] = [taps.rows.length, taps.columns.length];
  const across = spatial.at(-1) ?? 1;
  const size = spatial.reduce((product, length) => product * length, 1);
  const map = (k: number): number => (image * inputs + firstChannel + k) * size;
  const kernel = (k: number): number =>
    (transposed
      ? (firstChannel + k) * each.outputs + (output - group * each.outputs)
      : output * each.inputs + k) *
    rows *
    columns;
  const products = computeProducts({
    firstChannel,
    channelCount: each.inputs,
    taps,
    input: (k, y, column) => element(x.data, map(k) + y * across + column),
    weight: (k, y, column) => element(weight.data, kernel(k) + y * columns + column),
  });
  return { ...products, taps, transposedTaps: filterTaps };
}

export function groupCount(layer: Layer): number {
  const { group } = layer.attributes;
  return typeof group === "number" ? group : 1;
}

const SINGLE_TAP: WindowTaps = {
  rows: [{ tap: 0, inputIndex: 0, state: "input" }],
  columns: [{ tap: 0, inputIndex: 0, state: "input" }],
};

/**
 * Products of Gemm and MatMul: a row of the first operand times a column of the second, in the output element's batch.
 */
export function denseProducts(
  layer: Layer,
  a: Tensor,
  b: Tensor,
  index: number,
): DenseProducts | null {
  const at = coordinates(layer.output_shape, index);
  const [row = 0, column = 0] = at.slice(-2);
  const flip = (name: string): boolean => layer.attributes[name] === 1;
  const { alpha } = layer.attributes;
  const factor = typeof alpha === "number" ? alpha : 1;
  const batched = (shape: readonly number[]): boolean =>
    shape.length >= 2 && shape.length <= at.length;
  if (!batched(a.shape) || !batched(b.shape) || at.length < 2) return null;
  const inner = a.shape.at(flip("transA") ? -2 : -1) ?? 1;
  const batch = (shape: readonly number[]): number[] =>
    shape
      .slice(0, -2)
      .map((length, k) => (length === 1 ? 0 : (at[at.length - shape.length + k] ?? 0)));
  const left = (k: number) =>
    flatIndex(a.shape, [...batch(a.shape), ...(flip("transA") ? [k, row] : [row, k])]);
  const right = (k: number) =>
    flatIndex(b.shape, [...batch(b.shape), ...(flip("transB") ? [column, k] : [k, column])]);
  const products = computeProducts({
    firstChannel: 0,
    channelCount: inner,
    taps: SINGLE_TAP,
    input: (k) => element(a.data, left(k)),
    weight: (k) => factor * element(b.data, right(k)),
  });
  return { ...products, factorIndices: (k) => [left(k), right(k)] };
}
