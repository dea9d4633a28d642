// Numbers that come from elsewhere: a concatenation copies them, resampling mixes its neighbours.
import type { Layer } from "../plan/schema.ts";
import { type Term, termOf } from "./read.ts";
import { coordinates, element, place, sizeOf, type Tensor, type Tensors } from "./tensor.ts";
import { type Line, type Lines, slidingLines, stateOf } from "./window.ts";

/** Of a concatenation the part that an element is in, and where it stands there; null where that isn't there. */
export function concatenated(root: Layer, tensors: Tensors, index: number): Term | null {
  const at = coordinates(root.output_shape, index);
  const given = Number(root.attributes.axis);
  const axis = given < 0 ? given + at.length : given;
  for (const operand of root.operands) {
    const own = at[axis] ?? 0;
    const length = operand.shape[axis] ?? 0;
    if (own < length) return termOf(operand, tensors, place(operand.shape, at));
    at[axis] = own - length;
  }
  return null;
}

/**
 * Of a choice along an axis by numbers that are computed: a slice by each, or for each element one. The element, and the
 * number that it is chosen by; null where they aren't there.
 */
export function chosen(root: Layer, tensors: Tensors, index: number) {
  const [data, indices] = root.operands;
  if (data === undefined || indices === undefined) return null;
  const at = coordinates(root.output_shape, index);
  const { axis: given = 0 } = root.attributes;
  const axis = Number(given) < 0 ? Number(given) + data.shape.length : Number(given);
  const rank = indices.shape.length;
  const each = rank === data.shape.length && rank === at.length;
  const by = termOf(
    indices,
    tensors,
    place(indices.shape, each ? at : at.slice(axis, axis + rank)),
  );
  if (by === null) return null;
  // From the end, where it is negative.
  const own = by.value < 0 ? by.value + (data.shape[axis] ?? 0) : by.value;
  const rest = at.slice(each ? axis + 1 : axis + rank);
  const copied = termOf(data, tensors, place(data.shape, [...at.slice(0, axis), own, ...rest]));
  return copied && { copied, by };
}

/** A number that padding puts beside a map: one of the map's own, or a constant. */
export interface Padded {
  readonly lines: Lines;
  /** Whether a number of the map stands there. */
  readonly inside: boolean;
  readonly value: number;
}

/** Of a Pad over lines and maps; null for volumes. */
export function padded(root: Layer, x: Tensor, margin: number, index: number): Padded | null {
  const at = coordinates(root.output_shape, index);
  const lines = slidingLines(root.window, x.shape.slice(2), at, root.attributes.mode);
  const [row] = lines?.rows ?? [];
  const [column] = lines?.columns ?? [];
  if (lines === null || row === undefined || column === undefined) return null;
  const inside = stateOf(row, column) === "input";
  const [image = 0, channel = 0] = at;
  const map = (image * (x.shape[1] ?? 1) + channel) * sizeOf(x.shape.slice(2));
  const from = map + row.at * (x.shape.at(-1) ?? 1) + column.at;
  return { lines, inside, value: inside ? element(x.data, from) : margin };
}

/** A pixel of the input with its share. */
export interface Part {
  readonly y: number;
  readonly x: number;
  readonly share: number;
  readonly value: number;
}

export interface Mixed {
  readonly parts: readonly Part[];
  /** The rows and columns that they lie in. */
  readonly lines: Lines;
  readonly value: number;
}

/** Places along one axis and their shares, by ONNX's Resize; null for what isn't nearest or linear. */
function sharesOf(root: Layer, place: number, input: number, output: number) {
  const { mode, coordinate_transformation_mode: way, nearest_mode: nearest } = root.attributes;
  const ratio = input / output;
  const at = {
    asymmetric: place * ratio,
    half_pixel: (place + 0.5) * ratio - 0.5,
    pytorch_half_pixel: output > 1 ? (place + 0.5) * ratio - 0.5 : 0,
    align_corners: output > 1 ? (place * (input - 1)) / (output - 1) : 0,
  }[String(way)];
  if (at === undefined) return null;
  const inside = (one: number): number => Math.min(input - 1, Math.max(0, one));
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

/** A pixel of an enlarged or reduced picture; null where it isn't one, or is antialiased. */
export function resized(root: Layer, x: Tensor, index: number): Mixed | null {
  const [images, channels, height, width] = root.output_shape;
  const [n, c, h, w] = x.shape;
  if (x.shape.length !== 4 || images !== n || channels !== c || root.attributes.antialias === 1) {
    return null;
  }
  const at = coordinates(root.output_shape, index);
  const rows = sharesOf(root, at[2] ?? 0, h ?? 1, height ?? 1);
  const columns = sharesOf(root, at[3] ?? 0, w ?? 1, width ?? 1);
  if (rows === null || columns === null) return null;
  const parts = rows.flatMap((row) =>
    columns.map((column): Part => {
      const from = place(x.shape, [at[0] ?? 0, at[1] ?? 0, row.at, column.at]);
      return {
        y: row.at,
        x: column.at,
        share: row.share * column.share,
        value: element(x.data, from),
      };
    }),
  );
  const line = ({ at: own }: { at: number }, tap: number): Line => ({
    tap,
    at: own,
    state: "input",
  });
  const lines = { rows: rows.map(line), columns: columns.map(line) };
  return { parts, lines, value: parts.reduce((sum, { share, value }) => sum + share * value, 0) };
}
