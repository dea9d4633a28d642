// Operator inputs: elements of stored tensors, possibly reshaped and reordered.
import type { IndexMap, Layer, Operand } from "../plan/schema.ts";
import { coordinates, element, flatIndex, sizeOf, type Tensor, type Tensors } from "./tensor.ts";

/** Most elements to reorder, as for a large matrix that is read transposed. */
const MAX_REORDERED_ELEMENTS = 2 ** 24;

/** A reference to an element of a stored tensor. */
export interface ElementRef {
  readonly key: string;
  readonly index: number;
}

/** An element with its value; the key is empty for a constant that is one number everywhere. */
export interface OperandElement extends ElementRef {
  readonly value: number;
}

/** The index of an element in the stored tensor, through all index maps. */
export function sourceIndex(indexMaps: readonly IndexMap[], index: number): number {
  let now = index;
  for (const { sizes, strides, offset, axis, table } of indexMaps) {
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

/** An operand as its operator reads it; null if the tensor is missing, or too large to reorder. */
export function operandTensor(operand: Operand | undefined, tensors: Tensors): Tensor | null {
  const tensor = tensors.get(operand?.key ?? "");
  if (operand === undefined || tensor === undefined) return null;
  const { shape, index_maps } = operand;
  const length = sizeOf(shape);
  if (index_maps.length === 0) return length === tensor.data.length ? { ...tensor, shape } : tensor;
  if (length > MAX_REORDERED_ELEMENTS) return null;
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

/** The index, in a tensor that is broadcast, of the element at an output's coordinates. */
export function broadcastIndex(shape: readonly number[], coords: readonly number[]): number {
  const missing = coords.length - shape.length;
  return flatIndex(
    shape,
    shape.map((length, axis) => (length === 1 ? 0 : (coords[axis + missing] ?? 0))),
  );
}

/** An element of an operand in the operand's own order; null if its tensor is missing. */
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

/** The operands' elements that an elementwise operator reads for one output; null if a tensor is missing. */
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
