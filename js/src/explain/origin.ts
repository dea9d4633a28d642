// A number of another layer as the views call it: by channel and pixel, at the layer that gave it its value.
import { layerOf, type Network } from "../network/network.ts";
import type { Value } from "../plan/schema.ts";
import type { ElementRef } from "./operand_elements.ts";
import { sizeOf } from "./tensor.ts";

/** A number of another layer, and what it gives to the one that is explained. */
export interface Origin {
  readonly value: Value;
  readonly channel: number;
  readonly y: number;
  readonly x: number;
  /** Of a value with examples in front, which of them. */
  readonly image: number;
  readonly amount: number;
  /** The amount is that of the channel's whole map, or of the patch of it; the pixel is the one that gives most of it. */
  readonly scope?: "channel" | "patch";
}

/** An element of a value, in row-major order, as the channel and pixel that the views call it. */
export function elementPosition({ nchw }: Value, index: number) {
  const [, channels, height, width] = nchw;
  return {
    image: Math.floor(index / (channels * height * width)),
    channel: Math.floor(index / (height * width)) % channels,
    y: Math.floor(index / width) % height,
    x: index % width,
  };
}

/**
 * The same element before it was only laid out anew: input 661 of a dense layer is channel 13, y 3, x 3 of the maps
 * that were flattened.
 */
export function valueBeforeReshape(network: Network, value: Value): Value {
  const seen = new Set<Value>();
  let now = value;
  while (!seen.has(now)) {
    seen.add(now);
    const layer = network.layers.find(({ name }) => name === now.key);
    // What has no layer of its own is another key of what one makes; an input is nobody's.
    const given = layer === undefined && now.kind !== "input" ? layerOf(network, now)?.name : "";
    const laidOut = layer?.explanation === "same" && layer.inputs.length === 1;
    const before = network.values.get((laidOut ? layer.inputs[0] : given) ?? "");
    if (before !== undefined && sizeOf(before.shape) === sizeOf(now.shape)) now = before;
  }
  return now;
}

/** An element of a value as an origin, at the layer that gave it its number. */
export function originAt(network: Network, value: Value, index: number, amount: number): Origin {
  const own = valueBeforeReshape(network, value);
  return { value: own, ...elementPosition(own, index), amount };
}

/** The same of an element that is known by its value's key; null of a parameter's. */
export function originFrom(
  network: Network,
  { key, index }: ElementRef,
  amount: number,
): Origin | null {
  const value = network.values.get(key);
  return value === undefined ? null : originAt(network, value, index, amount);
}
