// Converts between the views' state and Python's `view` format.
import { batch } from "@preact/signals";
import { VIEW_NAMES } from "./messages.ts";
import type { Selection, ViewerState } from "./state.ts";
import { readField } from "./unvalidated_field.ts";

/** The current state of the views, in the format of Python's `view`. */
export function currentView({
  tab,
  layerSection,
  selected,
  comparedChannels,
  pixel,
  plan,
}: ViewerState) {
  const name = tab.value === "layer" ? layerSection.value : tab.value;
  const layer = selected.value?.layer ?? null;
  const channels =
    comparedChannels.value?.layer === layer ? (comparedChannels.value?.channels ?? []) : [];
  const spot = name === "explain" && layer !== null ? pixel.value : null;
  // Drop a pixel that was picked on another layer with maps of another size.
  const [, , height, width] = plan.value?.values.find(({ key }) => key === layer)?.nchw ?? [];
  const fits = spot?.layer === layer || (spot?.mapHeight === height && spot?.mapWidth === width);
  return { name, layer, channels, pixel: spot && fits ? [spot.y, spot.x] : null };
}

/** Set the views' state from Python's `view`. */
export function applyView(state: ViewerState, value: unknown): void {
  const name = VIEW_NAMES.find((one) => one === readField(value, "name"));
  if (name === undefined || JSON.stringify(value) === JSON.stringify(currentView(state))) return;
  const [layer, channels, pixel] = ["layer", "channels", "pixel"].map((key) =>
    readField(value, key),
  );
  batch(() => {
    if (name === "maps" || name === "filters" || name === "explain" || name === "bend") {
      state.tab.value = "layer";
      state.layerSection.value = name;
    } else state.tab.value = name;
    if (typeof layer !== "string") return;
    if (state.selected.peek()?.layer !== layer) state.selected.value = { layer, channel: null };
    const numbers = Array.isArray(channels) ? channels.filter(Number.isInteger) : [];
    state.comparedChannels.value = numbers.length > 0 ? { layer, channels: numbers } : null;
    if (!Array.isArray(pixel)) return;
    const [y, x] = pixel;
    state.pixel.value = { layer, mapHeight: 0, mapWidth: 0, y, x };
  });
}

/** Parse Python's `selected`. */
export function parseSelection(value: unknown): Selection | null {
  if (typeof value !== "object" || value === null || !("layer" in value)) return null;
  const { layer } = value;
  const channel = "channel" in value ? value.channel : null;
  if (typeof layer !== "string") return null;
  return { layer, channel: typeof channel === "number" ? channel : null };
}
