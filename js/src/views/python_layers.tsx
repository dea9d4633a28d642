// Layers that Python computes: a badge beside their names, a count in the status line, and the reason in the Layer tab.

import {
  outdatedLayers,
  pythonLayerOf,
  pythonLayers,
  pythonLayerText,
} from "../network/python_layers.ts";
import type { Layer } from "../plan/schema.ts";
import { useViews } from "./context.ts";

const LAST_INPUT_TEXT = "last input from Python";

/** The Python layer that computes the value of a key, and whether the page has changed its inputs since. */
export function usePythonLayer(key: string): { layer: Layer; isOutdated: boolean } | null {
  const { network, state } = useViews();
  const plan = state.plan.value;
  const layer = pythonLayerOf(plan, network.value?.values.get(key));
  if (plan === null || layer === undefined) return null;
  return { layer, isOutdated: outdatedLayers(plan, state.changedValues.value).has(layer.name) };
}

/** The badge beside a layer's name. */
export function PythonBadge({ layer: key }: { layer: string }) {
  const found = usePythonLayer(key);
  if (found === null) return null;
  const { layer, isOutdated } = found;
  const words = pythonLayerText(layer, isOutdated);
  return (
    <span
      class={isOutdated ? "nbg-python nbg-warn" : "nbg-python"}
      role="img"
      aria-label={words}
      title={`${words}. ${layer.python}`}
      data-python={layer.name}
    >
      {isOutdated ? LAST_INPUT_TEXT : "Python"}
    </span>
  );
}

/** The status line's entry: the number of Python layers and their names. */
export function PythonCount() {
  const { state } = useViews();
  const plan = state.plan.value;
  const layers = plan === null ? [] : pythonLayers(plan);
  if (plan === null || layers.length === 0) return null;
  const old = outdatedLayers(plan, state.changedValues.value).size;
  const names = layers.map(({ name }) => name).join(", ");
  return (
    <span class={old > 0 ? "nbg-warn" : ""} title={names}>
      {layers.length} {layers.length === 1 ? "layer" : "layers"} computed in Python
      {old > 0 && `, ${old} of them for the ${LAST_INPUT_TEXT}`}
    </span>
  );
}

/** The note under a layer's title: the reason and its consequences. */
export function PythonNote({ layer: key }: { layer: string }) {
  const found = usePythonLayer(key);
  if (found === null) return null;
  const { layer, isOutdated } = found;
  const words = pythonLayerText(layer, isOutdated);
  return (
    <p class="nbg-note nbg-python-note">
      <strong>{capitalize(words)}.</strong> {toSentence(layer.python)} The layers before and after
      it run in the page.
    </p>
  );
}

const toSentence = (text: string): string => `${capitalize(text)}${/[.!?]$/.test(text) ? "" : "."}`;
const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
