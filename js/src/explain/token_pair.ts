// One query-key pair of an attention in numbers: its score, its softmax weight, and its contribution to the output.

import type { Layer } from "../plan/schema.ts";
import type { Attention } from "./attention.ts";
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
  readonly keys: number;
  readonly features: number;
}

/**
 * The pair that an element of one of the three layers belongs to. For an output element, the key with the largest
 * softmax weight.
 */
export function tokenPairAt(
  { scores, output }: Attention,
  layer: Layer,
  tensors: Tensors,
  index: number,
  softmaxKey: string,
): TokenPair {
  const [queries = 1, keys = 1] = scores.output_shape.slice(-2);
  // Heads have an axis of their own or are merged into the first axis.
  const heads = scores.output_shape.length > 3 ? (scores.output_shape.at(-3) ?? 1) : Infinity;
  const features = output.output_shape.at(-1) ?? 1;
  const last = layer === output ? features : keys;
  const row = Math.floor(index / last);
  const own = index % last;
  const shares =
    tensors.get(softmaxKey)?.data.subarray(row * keys, (row + 1) * keys) ?? new Float32Array();
  const key =
    layer === output ? shares.indexOf(shares.reduce((a, b) => Math.max(a, b), -Infinity)) : own;
  const feature = layer === output ? own : 0;
  const place = { row, query: row % queries, head: Math.floor(row / queries) % heads };
  return { ...place, key: Math.max(0, key), feature, keys, features };
}

/** The products and the softmax of a pair; null if the shapes are not supported. */
export interface TokenPairTerms {
  readonly score: Products;
  readonly weight: SoftmaxTerms;
  readonly output: Products;
}

export function tokenPairTerms(
  attention: Attention,
  tensors: Tensors,
  pair: TokenPair,
): TokenPairTerms | null {
  const { scores, weights, output } = attention;
  const product = (layer: Layer, index: number): Products | null => {
    const [a, b] = layer.operands.map((operand) => operandTensor(operand, tensors));
    return a && b ? denseProducts(layer, a, b, index) : null;
  };
  const x = operandTensor(weights.operands[0], tensors);
  const at = pair.row * pair.keys + pair.key;
  const score = product(scores, at);
  const shares = x ? softmaxTerms(weights, x, at) : null;
  const mixed = product(output, pair.row * pair.features + pair.feature);
  return score && shares && mixed && { score, weight: shares, output: mixed };
}
