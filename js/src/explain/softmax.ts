// A share of one: a power of e, divided by the sum of all along the axis.
import type { Layer } from "../plan/schema.ts";
import { coordinates, element, place, type Tensor } from "./tensor.ts";

export interface Share {
  /** The inputs along the axis. */
  readonly inputs: Float64Array;
  /** e to the power of each, less the largest. */
  readonly powers: Float64Array;
  readonly largest: number;
  readonly sum: number;
  /** Which of them is looked at. */
  readonly position: number;
  /** Of LogSoftmax, its logarithm. */
  readonly value: number;
}

/** Softmax and LogSoftmax. */
export function softmax(layer: Layer, x: Tensor, index: number): Share | null {
  const { axis: given } = layer.attributes;
  const rank = x.shape.length;
  const axis = typeof given === "number" ? (given + rank) % rank : rank - 1;
  const at = coordinates(x.shape, index);
  const length = x.shape[axis];
  if (length === undefined) return null;
  const along = (i: number): number =>
    place(
      x.shape,
      at.map((one, k) => (k === axis ? i : one)),
    );
  const inputs = Float64Array.from({ length }, (_, i) => element(x.data, along(i)));
  const largest = inputs.reduce((most, input) => Math.max(most, input), -Infinity);
  const powers = inputs.map((input) => Math.exp(input - largest));
  const sum = powers.reduce((total, power) => total + power, 0);
  const position = at[axis] ?? 0;
  const logarithm = element(inputs, position) - largest - Math.log(sum);
  const value = layer.explains === "log softmax" ? logarithm : element(powers, position) / sum;
  return { inputs, powers, largest, sum, position, value };
}
