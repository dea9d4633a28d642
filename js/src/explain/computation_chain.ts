// How a layer's number is computed: the root layer that produces it, and the elementwise steps after it.

import { leafName } from "../network/layer_names.ts";
import type { Network, Stage } from "../network/network.ts";
import type { Layer, Operand, Value } from "../plan/schema.ts";
import { type Formula, parseFormula } from "./formula.ts";
import { sourceIndex } from "./operand_elements.ts";
import { coordinates, element, sizeOf, type Tensors } from "./tensor.ts";

/** A layer that changes each element separately. */
export type ElementwiseStep =
  | { readonly kind: "pointwise"; readonly layer: Layer }
  | { readonly kind: "normalization"; readonly layer: Layer }
  /** Normalises by the mean and standard deviation of this input's own elements. */
  | { readonly kind: "standardization"; readonly layer: Layer }
  | { readonly kind: "same"; readonly layer: Layer };

export interface ComputationChain {
  /**
   * The layer that combines many inputs into the number, with its operator's own output shape; null if the chain begins
   * with an input.
   */
  readonly root: Layer | null;
  /** The root's first operand, or the value the chain begins with. */
  readonly source: Value;
  /** In order of execution. */
  readonly steps: readonly ElementwiseStep[];
  /** All values and parameters to read for the explanation. */
  readonly requiredValues: readonly Value[];
}

/** Why a number cannot be explained, as text for the reader. */
export interface UnsupportedReason {
  readonly title: string;
  readonly text: string;
}

/** Explanations of layers that combine several numbers into one. */
const CHAIN_ROOT_KINDS: ReadonlySet<Layer["explanation"]> = new Set<Layer["explanation"]>([
  "convolution",
  "transposed convolution",
  "matrix",
  "max pool",
  "mean pool",
  "sum pool",
  "softmax",
  "log softmax",
  "response",
  "sum",
  "elementwise",
  "concatenation",
  "moved",
  "chosen",
  "resampling",
  "padding",
]);
const SUPPORTED_OPERATIONS_TEXT =
  "Explain supports convolutions, transposed convolutions, matrix products, pooling, softmax, element-wise " +
  "functions, reshaping, upsampling, padding and normalisation.";

function stepOf(layer: Layer, network: Network): ElementwiseStep | null {
  if (layer.is_composite) return null;
  const read = layer.operands[0]?.kind === "value";
  switch (layer.explanation) {
    case "pointwise":
      return { kind: "pointwise", layer };
    case "slope":
      return read ? { kind: "pointwise", layer } : null;
    case "batch norm":
      return layer.operands.length === 5 ? { kind: "normalization", layer } : null;
    case "group norm":
    case "layer norm":
      return read ? { kind: "standardization", layer } : null;
    case "same": {
      const before = network.values.get(layer.inputs[0] ?? "");
      const alone = layer.inputs.length === 1 && before !== undefined;
      return alone && sizeOf(before.shape) === sizeOf(layer.output_shape)
        ? { kind: "same", layer }
        : null;
    }
    default:
      return null;
  }
}

/** The key of the value that a step changes. */
const stepInputKey = (step: ElementwiseStep): string =>
  (step.kind === "pointwise" || step.kind === "same"
    ? step.layer.inputs[0]
    : step.layer.operands[0]?.key) ?? "";

/** The operands of a step besides the value it changes. */
function extraOperands({ kind, layer }: ElementwiseStep): readonly Operand[] {
  if (kind === "standardization") return layer.operands;
  const more = kind === "normalization" || layer.explanation === "slope";
  return more ? layer.operands.slice(1) : [];
}

/** The chain that ends with a layer, within its stage. */
export function findComputationChain(
  network: Network,
  stage: Stage,
  layer: Layer,
): ComputationChain | UnsupportedReason {
  const steps: ElementwiseStep[] = [];
  let now: Layer | undefined = layer;
  let source = "";
  while (now !== undefined) {
    const step = stepOf(now, network);
    if (step === null) break;
    steps.unshift(step);
    source = stepInputKey(step);
    const before = source;
    now = stage.layers.find((one) => one.name === before);
  }
  const root = now === undefined ? null : withRawShape(now);
  if (root !== null) {
    const problem = unsupportedRootReason(root);
    if (problem !== null) return problem;
    source = root.operands.find(({ key }) => key !== "")?.key ?? "";
  }
  const read: Operand[] = [...(root?.operands ?? []), ...steps.flatMap(extraOperands)];
  return collectValues(network, { root, steps }, source, layer.name, read);
}

/** The layer with its operator's own output shape, before index maps move elements. */
const withRawShape = (layer: Layer): Layer =>
  layer.raw_shape.length > 0 ? { ...layer, output_shape: layer.raw_shape } : layer;

function collectValues(
  network: Network,
  chain: Pick<ComputationChain, "root" | "steps">,
  sourceKey: string,
  lastKey: string,
  readOperands: readonly Operand[],
): ComputationChain | UnsupportedReason {
  const needed = new Map<string, Value>();
  const keys = readOperands.flatMap(({ kind, key }) =>
    kind === "omitted" || kind === "number" || kind === "setting" ? [] : [key],
  );
  for (const key of [...keys, sourceKey, lastKey]) {
    const value = network.values.get(key) ?? network.parameters.get(key);
    if (value === undefined) return missingValueReason(key);
    needed.set(key, value);
  }
  const first = needed.get(sourceKey);
  return first === undefined
    ? missingValueReason(sourceKey)
    : { ...chain, source: first, requiredValues: [...needed.values()] };
}

const missingValueReason = (key: string): UnsupportedReason => ({
  title: key === "" ? "This layer reads a value without a name" : `${key} is not kept`,
  text:
    key === ""
      ? "It was computed when the network was compiled, so the page can’t read and show it."
      : 'The compiled network doesn’t keep its values. Compile it with observe="all".',
});

function unsupportedRootReason(root: Layer): UnsupportedReason | null {
  const name = root.module || root.operator;
  if (root.python) {
    return {
      title: `${root.name} is computed in Python`,
      text: `The page receives only its results from Python, not the steps. See its values under Maps. Reason: ${root.python}`,
    };
  }
  if (root.operators.length === 0) {
    return {
      title: `${root.name} does not depend on the input`,
      text: "It depends only on parameters, so it is computed once, at load time. See its values under Maps.",
    };
  }
  if (root.is_composite) {
    const parts = root.operators.join(", ");
    return {
      title: `${name} is not explained yet`,
      text: `${root.name} is computed by several operators: ${parts}. ${SUPPORTED_OPERATIONS_TEXT}`,
    };
  }
  if (CHAIN_ROOT_KINDS.has(root.explanation)) return null;
  return {
    title: `${name} is not explained yet`,
    text: `${root.name} is computed by the operator ${root.operator}. See its values under Maps. ${SUPPORTED_OPERATIONS_TEXT}`,
  };
}

/** The reason for a root of a known kind whose input shape is not supported. */
export const unsupportedShapeReason = (root: Layer): UnsupportedReason => ({
  title: `${root.module || root.operator} is not explained yet in this form`,
  text: `${root.name} reads ${root.input_shapes.map((shape) => shape.join("×")).join(" and ")}. ${SUPPORTED_OPERATIONS_TEXT}`,
});

/** The parameters of a normalisation at one channel. */
export interface Normalization {
  readonly mean: number;
  readonly variance: number;
  readonly epsilon: number;
  readonly scale: number;
  readonly shift: number;
  /** The names of the layer's running mean and variance: the last part of each parameter's name. */
  readonly statisticNames?: readonly [string, string];
  /** The number of elements behind the mean and variance; undefined if they are the layer's own parameters. */
  readonly elementCount?: number;
}

/** An operand's element at a position; zero for an omitted operand. */
export function operandValueAt(
  tensors: Tensors,
  operand: Operand | undefined,
  index: number,
): number {
  if (operand === undefined) return Number.NaN;
  if (operand.kind === "omitted") return 0;
  if (operand.kind === "number") return operand.number;
  const data = tensors.get(operand.key)?.data ?? [];
  return element(data, data.length === 1 ? 0 : sourceIndex(operand.index_maps, index));
}

/** The function of a step at an element, with the values of its variables there. */
export function pointwiseFormula(layer: Layer, tensors: Tensors, index: number): Formula {
  const at = coordinates(layer.output_shape, index);
  const [row = 0, column = 0] = [at.at(-2), at.at(-1)];
  const slope = operandValueAt(tensors, layer.operands[1], at[1] ?? 0);
  return parseFormula(layer.formula, { row, column, channel: at[1] ?? 0, slope });
}

/** The elements that are normalised together with an element: begin, length, and the index of its scale and shift. */
function normalizationGroup(layer: Layer, shape: readonly number[], index: number) {
  const channels = shape[1] ?? 1;
  const map = sizeOf(shape.slice(2));
  const at = coordinates(shape, index);
  const [image, channel] = [at[0] ?? 0, at[1] ?? 0];
  const { axis = -1, num_groups: groups } = layer.attributes;
  if (layer.explanation === "layer norm") {
    const first = Number(axis) < 0 ? shape.length + Number(axis) : Number(axis);
    const length = sizeOf(shape.slice(first));
    return { begin: index - (index % length), length, own: index % length };
  }
  const together = channels / Number(groups ?? channels);
  const begin = (image * channels + channel - (channel % together)) * map;
  return { begin, length: together * map, own: channel };
}

/** GroupNorm, InstanceNorm and LayerNorm at an element, with mean and variance of this input. */
export function groupNormalization(layer: Layer, tensors: Tensors, index: number): Normalization {
  const source = tensors.get(layer.operands[0]?.key ?? "");
  const { begin, length, own } = normalizationGroup(layer, layer.output_shape, index);
  const data = source?.data.subarray(begin, begin + length) ?? new Float32Array();
  const mean = data.reduce((sum, x) => sum + x, 0) / length;
  const variance = data.reduce((sum, x) => sum + (x - mean) ** 2, 0) / length;
  const { epsilon } = layer.attributes;
  const [, scale, shift] = layer.operands;
  const missing = (operand: Operand | undefined) =>
    operand === undefined || operand.kind === "omitted";
  return {
    mean,
    variance,
    epsilon: typeof epsilon === "number" ? epsilon : 1e-5,
    scale: missing(scale) ? 1 : operandValueAt(tensors, scale, own),
    shift: missing(shift) ? 0 : operandValueAt(tensors, shift, own),
    elementCount: length,
  };
}

const operandLeafName = (operand: Operand | undefined, fallback: string): string =>
  operand?.kind === "parameter" || operand?.kind === "value" ? leafName(operand.key) : fallback;

/** BatchNorm at a channel. Operands: input, scale, shift, mean, variance. */
export function batchNormalization(layer: Layer, tensors: Tensors, channel: number): Normalization {
  const [, scale, shift, mean, variance] = layer.operands;
  const of = (operand: Operand | undefined) => operandValueAt(tensors, operand, channel);
  const { epsilon } = layer.attributes;
  return {
    mean: of(mean),
    variance: of(variance),
    epsilon: typeof epsilon === "number" ? epsilon : 1e-5,
    scale: of(scale),
    shift: of(shift),
    statisticNames: [operandLeafName(mean, "mean"), operandLeafName(variance, "variance")],
  };
}

export const normalize = (x: number, normalization: Normalization): number =>
  ((x - normalization.mean) / Math.sqrt(normalization.variance + normalization.epsilon)) *
    normalization.scale +
  normalization.shift;
