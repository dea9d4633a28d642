// Elements copied or mixed from others: concatenation, gather, padding and resampling.
import type { Layer } from "../plan/schema.ts";
import { type OperandElement, operandElement } from "./operand_elements.ts";
import { coordinates, element, flatIndex, sizeOf, type Tensor, type Tensors } from "./tensor.ts";
import { type AxisTap, slidingTaps, tapState, type WindowTaps } from "./window.ts";

/** The operand and element that a concatenation copies; null if the operand's tensor is missing. */
export function concatenatedElement(
  root: Layer,
  tensors: Tensors,
  index: number,
): OperandElement | null {
  const at = coordinates(root.output_shape, index);
  const given = Number(root.attributes.axis);
  const axis = given < 0 ? given + at.length : given;
  for (const operand of root.operands) {
    const own = at[axis] ?? 0;
    const length = operand.shape[axis] ?? 0;
    if (own < length) return operandElement(operand, tensors, flatIndex(operand.shape, at));
    at[axis] = own - length;
  }
  return null;
}

/**
 * The element that a gather copies (Gather: a slice per index; GatherElements: an index per element), and its index
 * operand's element. Null if a tensor is missing.
 */
export function gatheredElement(root: Layer, tensors: Tensors, index: number) {
  const [data, indices] = root.operands;
  if (data === undefined || indices === undefined) return null;
  const at = coordinates(root.output_shape, index);
  const { axis: given = 0 } = root.attributes;
  const axis = Number(given) < 0 ? Number(given) + data.shape.length : Number(given);
  const rank = indices.shape.length;
  const each = rank === data.shape.length && rank === at.length;
  const indexElement = operandElement(
    indices,
    tensors,
    flatIndex(indices.shape, each ? at : at.slice(axis, axis + rank)),
  );
  if (indexElement === null) return null;
  // A negative index counts from the end.
  const own =
    indexElement.value < 0 ? indexElement.value + (data.shape[axis] ?? 0) : indexElement.value;
  const rest = at.slice(each ? axis + 1 : axis + rank);
  const copied = operandElement(
    data,
    tensors,
    flatIndex(data.shape, [...at.slice(0, axis), own, ...rest]),
  );
  return copied && { copied, indexElement };
}

/** An element of a padded map: a copy from the input map, or a constant. */
export interface PaddedElement {
  readonly taps: WindowTaps;
  /** Whether the element copies one of the input map. */
  readonly isInside: boolean;
  readonly value: number;
}

/** The element of a Pad over 1D or 2D maps; null for volumes. */
export function paddedElement(
  root: Layer,
  x: Tensor,
  fillValue: number,
  index: number,
): PaddedElement | null {
  const at = coordinates(root.output_shape, index);
  const taps = slidingTaps(root.window, x.shape.slice(2), at, root.attributes.mode);
  const [row] = taps?.rows ?? [];
  const [column] = taps?.columns ?? [];
  if (taps === null || row === undefined || column === undefined) return null;
  const isInside = tapState(row, column) === "input";
  const [image = 0, channel = 0] = at;
  const map = (image * (x.shape[1] ?? 1) + channel) * sizeOf(x.shape.slice(2));
  const from = map + row.inputIndex * (x.shape.at(-1) ?? 1) + column.inputIndex;
  return { taps, isInside, value: isInside ? element(x.data, from) : fillValue };
}

/** An input pixel with its weight. */
export interface InterpolationTerm {
  readonly y: number;
  readonly x: number;
  readonly weight: number;
  readonly value: number;
}

export interface Interpolation {
  readonly terms: readonly InterpolationTerm[];
  /** The input rows and columns of the terms. */
  readonly taps: WindowTaps;
  readonly value: number;
}

/** Input positions along one axis and their weights, by ONNX Resize; null for modes other than nearest and linear. */
function interpolationWeights(
  root: Layer,
  outputIndex: number,
  inputSize: number,
  outputSize: number,
) {
  const { mode, coordinate_transformation_mode: way, nearest_mode: nearest } = root.attributes;
  const ratio = inputSize / outputSize;
  const at = {
    asymmetric: outputIndex * ratio,
    half_pixel: (outputIndex + 0.5) * ratio - 0.5,
    pytorch_half_pixel: outputSize > 1 ? (outputIndex + 0.5) * ratio - 0.5 : 0,
    align_corners: outputSize > 1 ? (outputIndex * (inputSize - 1)) / (outputSize - 1) : 0,
  }[String(way)];
  if (at === undefined) return null;
  const inside = (one: number): number => Math.min(inputSize - 1, Math.max(0, one));
  if (mode === "nearest") {
    const rounded = {
      floor: Math.floor(at),
      ceil: Math.ceil(at),
      round_prefer_floor: Math.ceil(at - 0.5),
      round_prefer_ceil: Math.floor(at + 0.5),
    }[String(nearest)];
    return rounded === undefined ? null : [{ at: inside(rounded), share: 1 }];
  }
  if (mode !== "linear") return null;
  const low = Math.floor(at);
  const parts = [
    { at: inside(low), share: 1 - (at - low) },
    { at: inside(low + 1), share: at - low },
  ];
  return parts.filter(({ share }) => share > 0);
}

/** A pixel of a resized picture; null if the tensor is no picture or is antialiased. */
export function interpolate(root: Layer, x: Tensor, index: number): Interpolation | null {
  const [images, channels, height, width] = root.output_shape;
  const [n, c, h, w] = x.shape;
  if (x.shape.length !== 4 || images !== n || channels !== c || root.attributes.antialias === 1) {
    return null;
  }
  const at = coordinates(root.output_shape, index);
  const rows = interpolationWeights(root, at[2] ?? 0, h ?? 1, height ?? 1);
  const columns = interpolationWeights(root, at[3] ?? 0, w ?? 1, width ?? 1);
  if (rows === null || columns === null) return null;
  const terms = rows.flatMap((row) =>
    columns.map((column): InterpolationTerm => {
      const from = flatIndex(x.shape, [at[0] ?? 0, at[1] ?? 0, row.at, column.at]);
      return {
        y: row.at,
        x: column.at,
        weight: row.share * column.share,
        value: element(x.data, from),
      };
    }),
  );
  const line = ({ at: own }: { at: number }, tap: number): AxisTap => ({
    tap,
    inputIndex: own,
    state: "input",
  });
  const taps = { rows: rows.map(line), columns: columns.map(line) };
  return { terms, taps, value: terms.reduce((sum, { weight, value }) => sum + weight * value, 0) };
}
