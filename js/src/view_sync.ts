// What the views show, and turning them to something else, in the words of Python's `view`.
import { batch } from "@preact/signals";
import { VIEWS } from "./messages.ts";
import type { Selection, ViewerState } from "./state.ts";
import { fieldOf } from "./unknown_field.ts";

/** What the views show, in the words of Python's `view`. */
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
  // One of another layer's maps is not taken along to a layer of another size.
  const [, , height, width] = plan.value?.values.find(({ key }) => key === layer)?.nchw ?? [];
  const fits = spot?.layer === layer || (spot?.height === height && spot?.width === width);
  return { name, layer, channels, pixel: spot && fits ? [spot.y, spot.x] : null };
}

/** Turns the views to what Python's `view` says. */
export function applyView(state: ViewerState, value: unknown): void {
  const name = VIEWS.find((one) => one === fieldOf(value, "name"));
  if (name === undefined || JSON.stringify(value) === JSON.stringify(currentView(state))) return;
  const [layer, channels, pixel] = ["layer", "channels", "pixel"].map((key) => fieldOf(value, key));
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
    state.pixel.value = { layer, height: 0, width: 0, y, x };
  });
}

/** What Python's `selected` says. */
export function parseSelection(value: unknown): Selection | null {
  if (typeof value !== "object" || value === null || !("layer" in value)) return null;
  const { layer } = value;
  const channel = "channel" in value ? value.channel : null;
  if (typeof layer !== "string") return null;
  return { layer, channel: typeof channel === "number" ? channel : null };
}
