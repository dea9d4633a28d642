// Origin of a number: an element of another layer, named by channel and pixel at the layer that computed it.
import { layerOf, type Network } from "../network/network.ts";
import type { Value } from "../plan/schema.ts";
import type { ElementRef } from "./operand_elements.ts";
import { sizeOf } from "./tensor.ts";

/** An element of another layer, and its contribution to the explained number. */
export interface Origin {
  readonly value: Value;
  readonly channel: number;
  readonly y: number;
  readonly x: number;
  /** The index of the example. */
  readonly image: number;
  readonly amount: number;
  /**
   * Set if the amount is the sum over the channel's map or over a patch of it; the pixel is then the largest
   * contributor.
   */
  readonly scope?: "channel" | "patch";
}

/** The image, channel and pixel of an element in row-major order. */
export function elementPosition({ nchw }: Value, index: number) {
  const [, channels, height, width] = nchw;
  return {
    image: Math.floor(index / (channels * height * width)),
    channel: Math.floor(index / (height * width)) % channels,
    y: Math.floor(index / width) % height,
    x: index % width,
  };
}

/** The same value before reshapes: input 661 of a dense layer is channel 13, y 3, x 3 of the flattened maps. */
export function valueBeforeReshape(network: Network, value: Value): Value {
  const seen = new Set<Value>();
  let now = value;
  while (!seen.has(now)) {
    seen.add(now);
    const layer = network.layers.find(({ name }) => name === now.key);
    // A value without a layer of its own is an alias of a layer's output; an input has no layer.
    const given = layer === undefined && now.kind !== "input" ? layerOf(network, now)?.name : "";
    const laidOut = layer?.explanation === "same" && layer.inputs.length === 1;
    const before = network.values.get((laidOut ? layer.inputs[0] : given) ?? "");
    if (before !== undefined && sizeOf(before.shape) === sizeOf(now.shape)) now = before;
  }
  return now;
}

/** An element of a value as an origin, at the layer that computed it. */
export function originAt(network: Network, value: Value, index: number, amount: number): Origin {
  const own = valueBeforeReshape(network, value);
  return { value: own, ...elementPosition(own, index), amount };
}

/** The origin of an element by its value's key; null for a parameter. */
export function originFrom(
  network: Network,
  { key, index }: ElementRef,
  amount: number,
): Origin | null {
  const value = network.values.get(key);
  return value === undefined ? null : originAt(network, value, index, amount);
}
