// Layers whose values the model's framework computes in Python, and texts about them.
import type { Layer, PlanHeader, Value } from "../plan/schema.ts";

/** The layer in Python that computes this value, also if a module or an output repeats it. */
export function pythonLayerOf(
  plan: PlanHeader | null,
  value: Value | undefined,
): Layer | undefined {
  const layer = plan?.layers[value?.layer ?? -1];
  return layer?.python ? layer : undefined;
}

/** The layers computed in Python, in call order. */
export const pythonLayers = ({ layers }: PlanHeader): Layer[] => layers.filter((one) => one.python);

/**
 * The Python layers whose values may be outdated: a value that they depend on differs from what Python sent, because of
 * a bend, a live source or training. `changedKeys` holds the keys of the changed values.
 */
export function outdatedLayers(
  { layers }: PlanHeader,
  changedKeys: ReadonlySet<string>,
): ReadonlySet<string> {
  const moved = new Set(changedKeys);
  const found = new Set<string>();
  for (const { name, inputs, python } of layers) {
    if (!inputs.some((key) => moved.has(key))) continue;
    // A Python layer's own value stays the same, as do values that depend on it alone.
    (python ? found : moved).add(name);
  }
  return found;
}

/** "computed in Python: LSTM", and the input that the value is for. */
export function pythonLayerText(layer: Layer, isOutdated: boolean): string {
  const of = isOutdated
    ? "for the last input from Python; its input in the page has changed since then"
    : "for this input";
  return `computed in Python: ${layer.module || layer.operator}, ${of}`;
}
