// What an operator reads: elements of what is kept under a key, maybe in another shape and order.
import type { Layer, Move, Operand } from "../plan/schema.ts";
import { coordinates, element, place, sizeOf, type Tensor, type Tensors } from "./tensor.ts";

/** So many elements are laid out anew at most, as of a large matrix that is read transposed. */
const MOST_READ = 2 ** 24;

/** An element of what is kept under a key. */
export interface From {
  readonly key: string;
  readonly index: number;
}

/** Such an element with its number; of a constant that is one number everywhere, without a key. */
export interface Term extends From {
  readonly value: number;
}

/** Where an element comes from, through all moves. */
export function movedTo(moves: readonly Move[], index: number): number {
  let now = index;
  for (const { sizes, strides, offset, axis, table } of moves) {
    let [rest, from] = [now, offset];
    for (let k = sizes.length - 1; k >= 0; k--) {
      const size = sizes[k] ?? 1;
      const at = rest % size;
      rest = Math.floor(rest / size);
      from += k === axis ? element(table, at) : at * (strides[k] ?? 0);
    }
    now = from;
  }
  return now;
}

const laidOut = new WeakMap<Float32Array, Map<Operand, Tensor>>();

/** An operand as its operator reads it; null where it isn't there. */
export function readOf(operand: Operand | undefined, tensors: Tensors): Tensor | null {
  const tensor = tensors.get(operand?.key ?? "");
  if (operand === undefined || tensor === undefined) return null;
  const { shape, moves } = operand;
  const length = sizeOf(shape);
  if (moves.length === 0) return length === tensor.data.length ? { ...tensor, shape } : tensor;
  if (length > MOST_READ) return null;
  const known = laidOut.get(tensor.data) ?? new Map<Operand, Tensor>();
  laidOut.set(tensor.data, known);
  const made = known.get(operand) ?? {
    key: tensor.key,
    shape,
    data: Float32Array.from({ length }, (_, i) => element(tensor.data, movedTo(moves, i))),
  };
  known.set(operand, made);
  return made;
}

/** The element that stands at an output's coordinates in what is broadcast to its shape. */
export function spreadAt(shape: readonly number[], at: readonly number[]): number {
  const missing = at.length - shape.length;
  return place(
    shape,
    shape.map((length, axis) => (length === 1 ? 0 : (at[axis + missing] ?? 0))),
  );
}

/** An element of what an operand is read as. */
export function termOf(operand: Operand, tensors: Tensors, index: number): Term | null {
  if (operand.kind === "number") return { key: "", index: 0, value: operand.number };
  const tensor = tensors.get(operand.key);
  if (tensor === undefined) return null;
  const from = movedTo(operand.moves, index);
  return { key: operand.key, index: from, value: element(tensor.data, from) };
}

/** What an operator that computes each element by itself reads for one; null where something isn't there. */
export function termsOf(root: Layer, tensors: Tensors, index: number): Term[] | null {
  const at = coordinates(root.output_shape, index);
  const terms: Term[] = [];
  for (const operand of root.operands) {
    const term = termOf(operand, tensors, spreadAt(operand.shape, at));
    if (term === null) return null;
    terms.push(term);
  }
  return terms;
}
