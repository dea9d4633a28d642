// How a layer's number came about: the layer that makes it, and the steps that each change it alone.

import type { Network, Stage } from "../network/network.ts";
import type { Layer, Operand, Value } from "../plan.ts";
import { type Activation, activationOf } from "./activations.ts";
import { isPool } from "./pool.ts";
import { coordinates, element, sizeOf, type Tensor } from "./tensor.ts";

/** A layer that changes each number by itself, in its place. */
export type Step =
  | { readonly kind: "activation"; readonly layer: Layer; readonly activation: Activation }
  | { readonly kind: "normalization"; readonly layer: Layer }
  /** By the mean and deviation of the numbers around it, in this very picture. */
  | { readonly kind: "standardization"; readonly layer: Layer }
  | { readonly kind: "slope"; readonly layer: Layer }
  | { readonly kind: "same"; readonly layer: Layer };

export interface Chain {
  /** The layer whose many inputs make the number; null where the chain begins with a number that is given. */
  readonly root: Layer | null;
  /** What the root reads first, or the number that is given. */
  readonly source: Value;
  /** In order. */
  readonly steps: readonly Step[];
  /** All values and parameters that are read for it. */
  readonly needed: readonly Value[];
}

/** Why a number cannot be explained, in words. */
export interface Unexplained {
  readonly title: string;
  readonly text: string;
}

/** How many of their operands are read to explain them. */
const ROOTS = new Map([
  ["Conv", 3],
  ["ConvTranspose", 3],
  ["Gemm", 3],
  ["MatMul", 3],
  ["LRN", 1],
  ["Softmax", 1],
  ["LogSoftmax", 1],
  ["Add", 2],
  ["Concat", Number.POSITIVE_INFINITY],
  ["Resize", 1],
]);
const STANDARD = new Set(["GroupNormalization", "InstanceNormalization", "LayerNormalization"]);
const SAME = new Set("Identity Dropout Flatten Reshape Squeeze Unsqueeze Cast".split(" "));
const KNOWN =
  "So far these are: convolutions and transposed ones over maps and lines, dense layers, pools, softmax, sums and " +
  "concatenations of layers, upsampling, normalisations, and functions of one number.";

function stepOf(layer: Layer, network: Network): Step | null {
  const activation = activationOf(layer);
  if (activation !== null) return { kind: "activation", layer, activation };
  if (layer.operator === "BatchNormalization" && layer.operators.length === 1) {
    return layer.operands.length === 5 ? { kind: "normalization", layer } : null;
  }
  const read = layer.operands[0]?.kind === "value" && layer.operators.length === 1;
  if (read && STANDARD.has(layer.operator)) return { kind: "standardization", layer };
  if (read && layer.operator === "PRelu") return { kind: "slope", layer };
  const [source] = layer.inputs;
  const before = network.values.get(source ?? "");
  const plain = layer.operators.every((operator) => SAME.has(operator));
  const alone = layer.inputs.length === 1 && before !== undefined;
  return plain && alone && sizeOf(before.shape) === sizeOf(layer.output_shape)
    ? { kind: "same", layer }
    : null;
}

/** The key of the value that a step changes. */
const sourceOf = (step: Step): string =>
  (step.kind === "activation" || step.kind === "same"
    ? step.layer.inputs[0]
    : step.layer.operands[0]?.key) ?? "";

/** The operands of a step that are read besides the number itself. */
function readBy({ kind, layer }: Step): readonly Operand[] {
  if (kind === "standardization") return layer.operands;
  return kind === "normalization" || kind === "slope" ? layer.operands.slice(1) : [];
}

/** The chain that ends with a layer, within its stage. */
export function chainOf(network: Network, stage: Stage, layer: Layer): Chain | Unexplained {
  const steps: Step[] = [];
  let now: Layer | undefined = layer;
  let source = "";
  while (now !== undefined) {
    const step = stepOf(now, network);
    if (step === null) break;
    steps.unshift(step);
    source = sourceOf(step);
    const before = source;
    now = stage.layers.find((one) => one.name === before);
  }
  const root = now ?? null;
  if (root !== null) {
    const problem = rootProblem(root);
    if (problem !== null) return problem;
    source = root.operands[0]?.key ?? "";
  }
  const read: Operand[] = [
    ...(root?.operands.slice(0, ROOTS.get(root.operator) ?? 1) ?? []),
    ...steps.flatMap(readBy),
    ...[source, layer.name].map((key): Operand => ({ kind: "value", key, number: 0 })),
  ];
  return withValues(network, { root, steps }, source, read);
}

function withValues(
  network: Network,
  chain: Pick<Chain, "root" | "steps">,
  source: string,
  read: readonly Operand[],
): Chain | Unexplained {
  const needed = new Map<string, Value>();
  for (const { kind, key } of read) {
    if (kind === "omitted" || kind === "number") continue;
    const value = network.values.get(key) ?? network.parameters.get(key);
    if (value === undefined) return missing(kind === "unnamed" ? "" : key);
    needed.set(key, value);
  }
  const first = needed.get(source);
  return first === undefined
    ? missing(source)
    : { ...chain, source: first, needed: [...needed.values()] };
}

const missing = (key: string): Unexplained => ({
  title: key === "" ? "A number that this layer reads has no name" : `${key} is not kept`,
  text:
    key === ""
      ? "It was computed when the network was compiled, so it cannot be read and shown here."
      : "The network was compiled without its values, so there is nothing to show it with.",
});

function rootProblem(root: Layer): Unexplained | null {
  const name = root.module || root.operator;
  // What Python tells as one operator says more of it than that one itself has.
  const { padding_mode: padded, transB: linear, before } = root.attributes;
  const whole = padded ?? before ?? (root.operator === "MatMul" ? linear : undefined);
  if (root.operators.length !== 1 && whole === undefined) {
    const parts = root.operators.join(", ");
    return {
      title: `${name} is not explained yet`,
      text: `${root.name} is computed by several operators here: ${parts}. ${KNOWN}`,
    };
  }
  if (ROOTS.has(root.operator) || isPool(root)) return null;
  return {
    title: `${root.operator} is not explained yet`,
    text: `${root.name} is made by this operator; its numbers are under Maps. ${KNOWN}`,
  };
}

/** A root that is known, over a shape that isn't. */
export const unusual = (root: Layer): Unexplained => ({
  title: `${root.operator} is not explained yet for this shape`,
  text: `${root.name} reads ${root.input_shapes.map((shape) => shape.join("×")).join(" and ")}. ${KNOWN}`,
});

/** The tensors of one run, by key. */
export type Tensors = ReadonlyMap<string, Tensor>;

/** The numbers of a normalisation at one channel. */
export interface Normalization {
  readonly mean: number;
  readonly variance: number;
  readonly epsilon: number;
  readonly scale: number;
  readonly shift: number;
  /** How many numbers of this picture the mean and variance are of; none where they are the layer's own. */
  readonly count?: number;
}

/** An operand's number at a place. */
function numberOf(tensors: Tensors, operand: Operand | undefined, at: number): number {
  if (operand === undefined) return Number.NaN;
  if (operand.kind === "number") return operand.number;
  const data = tensors.get(operand.key)?.data ?? [];
  return element(data, data.length === 1 ? 0 : at);
}

/** PReLU's slope for a channel. */
export const slopeOf = (layer: Layer, tensors: Tensors, channel: number): number =>
  numberOf(tensors, layer.operands[1], channel);

/** What is normalised together with an element: begin, length, and the place of its scale and shift. */
function groupOf(layer: Layer, shape: readonly number[], index: number) {
  const channels = shape[1] ?? 1;
  const map = sizeOf(shape.slice(2));
  const at = coordinates(shape, index);
  const [image, channel] = [at[0] ?? 0, at[1] ?? 0];
  const { axis = -1, num_groups: groups } = layer.attributes;
  if (layer.operator === "LayerNormalization") {
    const first = Number(axis) < 0 ? shape.length + Number(axis) : Number(axis);
    const length = sizeOf(shape.slice(first));
    return { begin: index - (index % length), length, own: index % length };
  }
  const together = layer.operator === "GroupNormalization" ? channels / Number(groups) : 1;
  const begin = (image * channels + channel - (channel % together)) * map;
  return { begin, length: together * map, own: channel };
}

/** Of GroupNorm, InstanceNorm and LayerNorm at an element: the mean and variance are those of this picture. */
export function standardization(layer: Layer, tensors: Tensors, index: number): Normalization {
  const source = tensors.get(layer.operands[0]?.key ?? "");
  const { begin, length, own } = groupOf(layer, layer.output_shape, index);
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
    scale: missing(scale) ? 1 : numberOf(tensors, scale, own),
    shift: missing(shift) ? 0 : numberOf(tensors, shift, own),
    count: length,
  };
}

/** By the operator's operands: scale, shift, mean, variance. */
export function normalization(layer: Layer, tensors: Tensors, channel: number): Normalization {
  const [, scale, shift, mean, variance] = layer.operands;
  const of = (operand: Operand | undefined) => numberOf(tensors, operand, channel);
  const { epsilon } = layer.attributes;
  return {
    mean: of(mean),
    variance: of(variance),
    epsilon: typeof epsilon === "number" ? epsilon : 1e-5,
    scale: of(scale),
    shift: of(shift),
  };
}

export const normalized = (x: number, by: Normalization): number =>
  ((x - by.mean) / Math.sqrt(by.variance + by.epsilon)) * by.scale + by.shift;
