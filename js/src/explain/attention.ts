// Attention found in the layer table: the scores of a matrix product, their softmax, and a second product with the
// softmax.
import type { Network } from "../network/network.ts";
import type { Layer, Value } from "../plan/schema.ts";
import { sizeOf } from "./tensor.ts";

/** Most layers between the scores and the softmax, or after it: a factor, a mask, a reshape. */
const MAX_LAYERS_AROUND_SOFTMAX = 6;

export interface AttentionLayers {
  /** q·k of each pair of tokens: (…, queries, keys). */
  readonly scores: Layer;
  readonly weights: Layer;
  /** The sums of v weighted by the softmax: (…, queries, features). */
  readonly output: Layer;
  /** All values to read for the explanation. */
  readonly requiredValues: readonly Value[];
}

const isMatrixProduct = ({ explanation, is_composite, raw_shape, operands }: Layer): boolean =>
  explanation === "matrix" &&
  !is_composite &&
  raw_shape.length === 0 &&
  operands.slice(0, 2).every(({ kind }) => kind === "value");

/** Walk back from a layer through inputs of the same size and order until a wanted layer is found. */
function findUpstreamLayer(
  network: Network,
  startKey: string,
  isTarget: (layer: Layer) => boolean,
  canPass: (layer: Layer) => boolean,
): Layer | null {
  let now = network.layers.find((layer) => layer.name === startKey);
  for (let k = 0; k < MAX_LAYERS_AROUND_SOFTMAX && now !== undefined; k++) {
    if (isTarget(now)) return now;
    if (!canPass(now)) return null;
    const size = sizeOf(now.output_shape);
    const from = now.inputs.find((one) => sizeOf(network.values.get(one)?.shape ?? []) === size);
    now = network.layers.find((layer) => layer.name === from);
  }
  return null;
}

const keepsElementOrder = ({
  explanation,
  output_shape: shape,
  input_shapes: given,
}: Layer): boolean => explanation === "same" || given.some((one) => one.join() === shape.join());

/** The attention that a layer belongs to as scores, softmax or output; null for other layers. */
export function findAttentionLayers(network: Network, layer: Layer): AttentionLayers | null {
  for (const output of network.layers) {
    if (!isMatrixProduct(output)) continue;
    const shares = (one: Layer): boolean =>
      one.explanation === "softmax" &&
      one.raw_shape.length === 0 &&
      [-1, one.output_shape.length - 1].includes(Number(one.attributes.axis ?? -1));
    const weights = findUpstreamLayer(
      network,
      output.operands[0]?.key ?? "",
      shares,
      ({ explanation }) => explanation === "same",
    );
    const scores =
      weights &&
      findUpstreamLayer(
        network,
        weights.operands[0]?.key ?? "",
        isMatrixProduct,
        keepsElementOrder,
      );
    if (weights === null || scores === null || ![scores, weights, output].includes(layer)) continue;
    const keys = [scores, weights, output].flatMap((one) => [
      one.name,
      ...one.operands.map(({ key }) => key),
    ]);
    const needed = [...new Set(keys)].map((key) => network.values.get(key));
    return needed.includes(undefined)
      ? null
      : { scores, weights, output, requiredValues: needed.filter((one) => one !== undefined) };
  }
  return null;
}
