// Layers of a Plan's table, for tests of what the views make of them.
import type { Tensor } from "../src/explain/tensor.ts";
import type { IndexMap, Layer, Operand } from "../src/plan/schema.ts";
import { OPERATORS } from "./operators.ts";

export function makeLayer(
  name: string,
  operator: string,
  inputs: string[],
  more: Partial<Layer> = {},
): Layer {
  const record = OPERATORS[operator];
  if (record === undefined) throw new RangeError(`no operator ${operator}`);
  return {
    name,
    operator,
    module: operator,
    type: operator,
    label: "",
    attributes: {},
    input_shapes: [],
    output_shape: [],
    parameters: 0,
    shared: 0,
    macs: 0,
    bytes: 0,
    description: "",
    inputs,
    operators: [operator],
    operands: [],
    window: { kernel: [], strides: [], dilations: [], pads_begin: [], pads_end: [] },
    position_axes: [],
    dependencies: [],
    ...record,
    is_composite: false,
    formula: "",
    bounds: [null, null],
    python: "",
    raw_shape: [],
    index_maps: [],
    ...more,
  };
}

/** What an operator reads of a tensor: all of it as it is, or moved and in another shape. */
export const makeOperand = (
  { key, shape }: Tensor,
  read: readonly number[] = shape,
  index_maps: readonly IndexMap[] = [],
): Operand => ({ kind: "value", key, number: 0, shape: read, index_maps });
