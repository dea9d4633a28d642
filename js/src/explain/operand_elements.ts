// What an operator reads: elements of what is kept under a key, maybe in another shape and order.
import type { IndexMap, Layer, Operand } from "../plan/schema.ts";
import { coordinates, element, flatIndex, sizeOf, type Tensor, type Tensors } from "./tensor.ts";

/** So many elements are laid out anew at most, as of a large matrix that is read transposed. */
const MAX_REORDERED = 2 ** 24;

/** An element of what is kept under a key. */
export interface ElementRef {
  readonly key: string;
  readonly index: number;
}

/** Such an element with its number; of a constant that is one number everywhere, without a key. */
export interface OperandElement extends ElementRef {
  readonly value: number;
}

/** Where an element comes from, through all moves. */
export function sourceIndex(moves: readonly IndexMap[], index: number): number {
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

const reorderedTensors = new WeakMap<Float32Array, Map<Operand, Tensor>>();

/** An operand as its operator reads it; null where it isn't there. */
export function operandTensor(operand: Operand | undefined, tensors: Tensors): Tensor | null {
  const tensor = tensors.get(operand?.key ?? "");
  if (operand === undefined || tensor === undefined) return null;
  const { shape, index_maps } = operand;
  const length = sizeOf(shape);
  if (index_maps.length === 0) return length === tensor.data.length ? { ...tensor, shape } : tensor;
  if (length > MAX_REORDERED) return null;
  const known = reorderedTensors.get(tensor.data) ?? new Map<Operand, Tensor>();
  reorderedTensors.set(tensor.data, known);
  const made = known.get(operand) ?? {
    key: tensor.key,
    shape,
    data: Float32Array.from({ length }, (_, i) => element(tensor.data, sourceIndex(index_maps, i))),
  };
  known.set(operand, made);
  return made;
}

/** The element that stands at an output's coordinates in what is broadcast to its shape. */
export function broadcastIndex(shape: readonly number[], at: readonly number[]): number {
  const missing = at.length - shape.length;
  return flatIndex(
    shape,
    shape.map((length, axis) => (length === 1 ? 0 : (at[axis + missing] ?? 0))),
  );
}

/** An element of what an operand is read as. */
export function operandElement(
  operand: Operand,
  tensors: Tensors,
  index: number,
): OperandElement | null {
  if (operand.kind === "number") return { key: "", index: 0, value: operand.number };
  const tensor = tensors.get(operand.key);
  if (tensor === undefined) return null;
  const from = sourceIndex(operand.index_maps, index);
  return { key: operand.key, index: from, value: element(tensor.data, from) };
}

/** What an operator that computes each element by itself reads for one; null where something isn't there. */
export function operandElements(
  root: Layer,
  tensors: Tensors,
  index: number,
): OperandElement[] | null {
  const at = coordinates(root.output_shape, index);
  const terms: OperandElement[] = [];
  for (const operand of root.operands) {
    const term = operandElement(operand, tensors, broadcastIndex(operand.shape, at));
    if (term === null) return null;
    terms.push(term);
  }
  return terms;
}
