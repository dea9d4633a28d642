// Softmax explained: an exponential, divided by the sum of all exponentials along the axis.
import type { Layer } from "../plan/schema.ts";
import { coordinates, element, flatIndex, type Tensor } from "./tensor.ts";

export interface SoftmaxTerms {
  /** The inputs along the axis. */
  readonly inputs: Float64Array;
  /** exp(input − max) of each input. */
  readonly exponentials: Float64Array;
  readonly max: number;
  readonly sum: number;
  /** The index of the explained element along the axis. */
  readonly position: number;
  /** The softmax, or its logarithm for LogSoftmax. */
  readonly value: number;
}

/** The terms of Softmax and LogSoftmax. */
export function softmaxTerms(layer: Layer, x: Tensor, index: number): SoftmaxTerms | null {
  const { axis: given } = layer.attributes;
  const rank = x.shape.length;
  const axis = typeof given === "number" ? (given + rank) % rank : rank - 1;
  const at = coordinates(x.shape, index);
  const length = x.shape[axis];
  if (length === undefined) return null;
  const along = (i: number): number =>
    flatIndex(
      x.shape,
      at.map((one, k) => (k === axis ? i : one)),
    );
  const inputs = Float64Array.from({ length }, (_, i) => element(x.data, along(i)));
  const max = inputs.reduce((most, input) => Math.max(most, input), -Infinity);
  const exponentials = inputs.map((input) => Math.exp(input - max));
  const sum = exponentials.reduce((total, power) => total + power, 0);
  const position = at[axis] ?? 0;
  const logarithm = element(inputs, position) - max - Math.log(sum);
  const value =
    layer.explanation === "log softmax" ? logarithm : element(exponentials, position) / sum;
  return { inputs, exponentials, max, sum, position, value };
}
