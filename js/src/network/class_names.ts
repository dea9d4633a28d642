// Which values are of a network's classes, and what those are called.

import type { Layer, Value } from "../plan/schema.ts";
import type { Network } from "./network.ts";

/** The names of a value's channels, by its key; empty where they have none. A name may be "" as well. */
export type ClassNames = (key: string) => readonly string[];

/** What gives each class a number of its own again, so that its names hold before it too. */
const PER_CLASS_LAYERS: ReadonlySet<Layer["explanation"]> = new Set<Layer["explanation"]>([
  "same",
  "pointwise",
  "slope",
  "softmax",
  "log softmax",
]);

/** Names of the outputs that have as many channels, of what they are made of class by class, and of differences. */
export function classNameLookup(network: Network | null, classes: readonly string[]): ClassNames {
  const keys =
    network === null || classes.length === 0 ? null : classValueKeys(network, classes.length);
  return (key) => (keys?.has(key) ? classes : []);
}

function classValueKeys({ values, outputs, layers, pairs }: Network, count: number): Set<string> {
  const fits = (value: Value | undefined): value is Value => value?.nchw[1] === count;
  const found = new Set(outputs.filter(fits).map(({ key }) => key));
  for (const key of found) {
    const { texture } = values.get(key) ?? {};
    // A value has other keys: the output, its layer, the module around.
    for (const value of values.values()) {
      if (value.texture === texture && fits(value)) found.add(value.key);
    }
    const layer = layers.find(({ name }) => name === key);
    const [before = ""] = layer?.inputs ?? [];
    if (layer && PER_CLASS_LAYERS.has(layer.explanation) && fits(values.get(before)))
      found.add(before);
    const { a = key, b = key, difference = key } = pairs.get(key) ?? {};
    for (const one of [a, b, difference]) if (fits(values.get(one))) found.add(one);
  }
  return found;
}

/** "tabby (281)"; "281" without a name. */
export function classText(names: readonly string[], channel: number): string {
  const name = names[channel] ?? "";
  return name === "" ? `${channel}` : `${name} (${channel})`;
}
