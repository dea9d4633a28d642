// Layers whose values the model's own framework computes in Python: which they are, and what is said of them.
import type { Layer, PlanHeader, Value } from "../plan/schema.ts";

/** The layer in Python whose value this is, also where a module or an output repeats it. */
export function pythonLayerOf(
  plan: PlanHeader | null,
  value: Value | undefined,
): Layer | undefined {
  const layer = plan?.layers[value?.layer ?? -1];
  return layer?.python ? layer : undefined;
}

/** The layers in Python, in call order. */
export const pythonLayers = ({ layers }: PlanHeader): Layer[] => layers.filter((one) => one.python);

/**
 * Those of them that the page may no longer agree with: something that they follow from has other numbers here than
 * Python sent, by a bend, a live source or training; `changed` are the keys of that.
 */
export function outdatedLayers(
  { layers }: PlanHeader,
  changed: ReadonlySet<string>,
): ReadonlySet<string> {
  const moved = new Set(changed);
  const found = new Set<string>();
  for (const { name, inputs, python } of layers) {
    if (!inputs.some((key) => moved.has(key))) continue;
    // Its own value stays what it was, and what follows from that alone too.
    (python ? found : moved).add(name);
  }
  return found;
}

/** "computed in Python: LSTM", and of which input. */
export function pythonLayerText(layer: Layer, isOutdated: boolean): string {
  const of = isOutdated
    ? "for the last input from Python; its input in the page has changed since then"
    : "for this input";
  return `computed in Python: ${layer.module || layer.operator}, ${of}`;
}
