// One query-key pair of an attention in numbers: its score, its softmax weight, and its contribution to the output.

import type { Layer } from "../plan/schema.ts";
import type { AttentionLayers } from "./attention.ts";
import { operandTensor } from "./operand_elements.ts";
import { denseProducts, type Products } from "./products.ts";
import { type SoftmaxTerms, softmaxTerms } from "./softmax.ts";
import type { Tensors } from "./tensor.ts";

/** A query-key pair, and one feature of the output. */
export interface TokenPair {
  /** The row of the scores: a query of one head. */
  readonly row: number;
  readonly query: number;
  readonly head: number;
  readonly key: number;
  readonly feature: number;
  readonly keyCount: number;
  readonly featureCount: number;
}

/**
 * The pair that an element of one of the three layers belongs to. For an output element, the key with the largest
 * softmax weight.
 */
export function tokenPairAt(
  { scores, output }: AttentionLayers,
  layer: Layer,
  tensors: Tensors,
  index: number,
  softmaxKey: string,
): TokenPair {
  const [queries = 1, keyCount = 1] = scores.output_shape.slice(-2);
  // Heads have an axis of their own or are merged into the first axis.
  const heads = scores.output_shape.length > 3 ? (scores.output_shape.at(-3) ?? 1) : Infinity;
  const featureCount = output.output_shape.at(-1) ?? 1;
  const last = layer === output ? featureCount : keyCount;
  const row = Math.floor(index / last);
  const own = index % last;
  const shares =
    tensors.get(softmaxKey)?.data.subarray(row * keyCount, (row + 1) * keyCount) ??
    new Float32Array();
  const key =
    layer === output ? shares.indexOf(shares.reduce((a, b) => Math.max(a, b), -Infinity)) : own;
  const feature = layer === output ? own : 0;
  const place = { row, query: row % queries, head: Math.floor(row / queries) % heads };
  return { ...place, key: Math.max(0, key), feature, keyCount, featureCount };
}

/** The products and the softmax of a pair; null if the shapes are not supported. */
export interface TokenPairTerms {
  readonly score: Products;
  readonly weight: SoftmaxTerms;
  readonly output: Products;
}

export function tokenPairTerms(
  attention: AttentionLayers,
  tensors: Tensors,
  pair: TokenPair,
): TokenPairTerms | null {
  const { scores, weights, output } = attention;
  const product = (layer: Layer, index: number): Products | null => {
    const [a, b] = layer.operands.map((operand) => operandTensor(operand, tensors));
    return a && b ? denseProducts(layer, a, b, index) : null;
  };
  const x = operandTensor(weights.operands[0], tensors);
  const at = pair.row * pair.keyCount + pair.key;
  const score = product(scores, at);
  const shares = x ? softmaxTerms(weights, x, at) : null;
  const mixed = product(output, pair.row * pair.featureCount + pair.feature);
  return score && shares && mixed && { score, weight: shares, output: mixed };
}
