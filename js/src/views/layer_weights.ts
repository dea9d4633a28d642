// The parameters of a layer, and the kernels of one output channel within a weight tensor.

import type { Network, Stage } from "../network/network.ts";
import type { Layer, PlanHeader, Value } from "../plan/schema.ts";

/** The parameters of a layer, weight first: found by its module's name, or by the textures that its passes read. */
export function parametersOf(plan: PlanHeader, network: Network, layer: Layer): Value[] {
  // A module that is called twice has the keys `block` and `block:1`, but one set of parameters.
  const module = `${layer.name.replace(/:\d+$/, "")}.`;
  const named = plan.parameters.filter(
    (value) => value.key.startsWith(module) && !value.key.slice(module.length).includes("."),
  );
  if (named.length > 0 || layer.module !== "") return named;
  const index = plan.layers.indexOf(layer);
  const read = new Set(
    plan.passes.filter((pass) => pass.layer === index).flatMap((pass) => pass.inputs),
  );
  return [...network.parameters.values()].filter((value) => read.has(value.texture));
}

/** Kernels of a weight tensor: for each output channel, one per input channel that it reads. */
export interface Kernels {
  readonly layer: Layer;
  readonly weight: Value;
  readonly outputCount: number;
  /** The number of input channels that one output channel reads. */
  readonly inputCount: number;
  readonly height: number;
  readonly width: number;
  /** One-dimensional: the taps form a line and are drawn as a curve. */
  readonly is1d: boolean;
  /** The weight is stored with the input channel first, as for ConvTranspose. */
  readonly isTransposed: boolean;
  readonly groupCount: number;
}

/** The kernels of a convolution or the rows of a linear layer; null for other layers. */
export function kernelsOf(plan: PlanHeader, network: Network, layer: Layer): Kernels | null {
  const weight = parametersOf(plan, network, layer).find(
    (value) => value.key.endsWith("weight") || value.shape.length >= 2,
  );
  if (weight === undefined) return null;
  const isTransposed = layer.explanation === "transposed convolution";
  if ((isTransposed || layer.explanation === "convolution") && weight.shape.length >= 3) {
    const [first = 1, second = 1] = weight.shape;
    const spatial = weight.shape.slice(2);
    const over = network.values.get(layer.name)?.display_kind === "signal" && spatial.includes(1);
    const { group } = layer.attributes;
    const groupCount = typeof group === "number" ? group : 1;
    return {
      layer,
      weight,
      outputCount: isTransposed ? second * groupCount : first,
      inputCount: isTransposed ? first / groupCount : second,
      // For a kernel over a volume, the slices are stacked vertically.
      height: spatial.slice(0, -1).reduce((product, size) => product * size, 1),
      width: spatial.at(-1) ?? 1,
      is1d: over || spatial.length === 1,
      isTransposed,
      groupCount,
    };
  }
  if (weight.shape.length !== 2) return null;
  const [outputCount = 1, inputs = 1] = weight.shape;
  return {
    layer,
    weight,
    outputCount,
    inputCount: 1,
    height: 1,
    width: inputs,
    is1d: false,
    isTransposed: false,
    groupCount: 1,
  };
}

/** The index of the kernel (output channel, its k-th input channel) among the weight's elements. */
export function kernelStart(kernels: Kernels, output: number, input: number): number {
  const size = kernels.height * kernels.width;
  if (!kernels.isTransposed) return (output * kernels.inputCount + input) * size;
  const perGroup = kernels.outputCount / kernels.groupCount;
  const group = Math.floor(output / perGroup);
  return ((group * kernels.inputCount + input) * perGroup + (output % perGroup)) * size;
}

/** The input channel that the k-th kernel of an output channel reads. */
export function inputChannelOf(kernels: Kernels, output: number, kernelIndex: number): number {
  const perGroup = kernels.outputCount / kernels.groupCount;
  return Math.floor(output / perGroup) * kernels.inputCount + kernelIndex;
}

/** The kernels of a stage: those of its last layer that has any. */
export function stageKernels(plan: PlanHeader, network: Network, stage: Stage): Kernels | null {
  for (const layer of stage.layers.toReversed()) {
    const kernels = kernelsOf(plan, network, layer);
    if (kernels !== null) return kernels;
  }
  return null;
}
