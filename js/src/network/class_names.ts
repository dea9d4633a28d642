// Finds the values whose channels are the network's classes, and the names of the classes.

import type { Layer, Value } from "../plan/schema.ts";
import type { Network } from "./network.ts";

/** The names of a value's channels, by its key; empty if they have none. Single names may be "". */
export type ClassNameLookup = (key: string) => readonly string[];

/** Layers that map each class to one number, so that the class names also apply to their input. */
const PER_CLASS_LAYERS: ReadonlySet<Layer["explanation"]> = new Set<Layer["explanation"]>([
  "same",
  "pointwise",
  "slope",
  "softmax",
  "log softmax",
]);

/**
 * The class names of outputs with that many channels, of the values they are computed from class by class, and of
 * differences.
 */
export function createClassNameLookup(
  network: Network | null,
  classes: readonly string[],
): ClassNameLookup {
  const keys =
    network === null || classes.length === 0 ? null : classValueKeys(network, classes.length);
  return (key) => (keys?.has(key) ? classes : []);
}

function classValueKeys(
  { values, outputs, layers, comparisonPairs }: Network,
  classCount: number,
): Set<string> {
  const fits = (value: Value | undefined): value is Value => value?.nchw[1] === classCount;
  const found = new Set(outputs.filter(fits).map(({ key }) => key));
  for (const key of found) {
    const { texture } = values.get(key) ?? {};
    // A value has several keys: those of the output, of its layer and of the enclosing module.
    for (const value of values.values()) {
      if (value.texture === texture && fits(value)) found.add(value.key);
    }
    const layer = layers.find(({ name }) => name === key);
    const [before = ""] = layer?.inputs ?? [];
    if (layer && PER_CLASS_LAYERS.has(layer.explanation) && fits(values.get(before)))
      found.add(before);
    const { a = key, b = key, difference = key } = comparisonPairs.get(key) ?? {};
    for (const one of [a, b, difference]) if (fits(values.get(one))) found.add(one);
  }
  return found;
}

/** "tabby (281)"; "281" without a name. */
export function classText(names: readonly string[], channel: number): string {
  const name = names[channel] ?? "";
  return name === "" ? `${channel}` : `${name} (${channel})`;
}
