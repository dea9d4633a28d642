// Theoretical receptive field extents: windows composed over layers, ignoring borders.
import type { AxisWindow, FieldMap } from "../plan/schema.ts";
import { isIdentityAxis } from "./masks.ts";

/** The theoretical receptive field of the positions along one axis, in coordinates of another axis. */
export interface FieldExtent {
  /** The distance between the fields of neighbouring positions. */
  readonly stride: number;
  /** The first and last position of position 0's field, inside the map or not. */
  readonly low: number;
  readonly high: number;
}

/** The extent of one axis, from windows alone; null if it depends on the position. */
function axisExtent(axisWindow: AxisWindow): FieldExtent | null {
  const { kernel, stride, dilation, pad_begin, transposed, table } = axisWindow;
  if (axisWindow.axis < 0 || table.length > 0) return null;
  const reach = (kernel - 1) * dilation;
  if (!transposed)
    return { stride, low: Math.min(0, reach) - pad_begin, high: Math.max(0, reach) - pad_begin };
  return stride === 1 ? { stride, low: pad_begin - reach, high: pad_begin } : null;
}

/** One extent for each axis along which a value has positions. */
export type FieldExtents = readonly FieldExtent[];

/** The extents of an operand, from those of its consumer. */
export function operandExtents(
  { output_sizes, input_sizes, windows }: FieldMap,
  outputExtents: FieldExtents,
): FieldExtents | null {
  const flat = output_sizes.length === 1 && input_sizes.length === 1 && windows[0]?.axis === 0;
  const [only] = windows;
  // The same positions in the same order, flattened to one axis.
  if (flat && only !== undefined && isIdentityAxis(only, output_sizes[0] ?? 0, input_sizes[0] ?? 0))
    return outputExtents;
  if (output_sizes.length !== outputExtents.length) return null;
  const found: FieldExtent[] = [];
  for (const axisWindow of windows) {
    const [outer, own] = [outputExtents[axisWindow.axis], axisExtent(axisWindow)];
    if (outer === undefined || own === null) return null;
    const ends = [outer.low * own.stride, outer.high * own.stride];
    found.push({
      stride: outer.stride * own.stride,
      low: Math.min(...ends) + own.low,
      high: Math.max(...ends) + own.high,
    });
  }
  return found;
}

/** The union of two fields; null if their strides differ. */
export function unionExtents(a: FieldExtents, b: FieldExtents): FieldExtents | null {
  const both = a.map((one, k): FieldExtent | null => {
    const other = b[k];
    if (other === undefined || other.stride !== one.stride) return null;
    return { ...one, low: Math.min(one.low, other.low), high: Math.max(one.high, other.high) };
  });
  return a.length === b.length && both.every((one) => one !== null) ? both : null;
}
