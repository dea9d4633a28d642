// The entry in a notebook: anywidget calls `initialize` once per Viewer, `render` once per view of it.
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import { effect, type Signal } from "@preact/signals";
import { Connection } from "./connection.ts";
import { COLORMAPS, NORMALIZATIONS } from "./messages.ts";
import { createState, type Selection, type ViewerState } from "./state.ts";
import { mount } from "./views/app.tsx";

/** Each model has its own copy of this module, so one of each is all there is. */
let state: ViewerState | undefined;
let connection: Connection | undefined;

function initialize({ model, signal }: InitializeProps): () => void {
  const made = createState();
  state = made;
  // First of all: Python waits for its hello.
  const opened = new Connection(model, made);
  connection = opened;
  const unlink = [
    follow(model, "height", (value) => {
      made.height.value = typeof value === "number" ? value : null;
    }),
    follow(model, "input_index", (value) => {
      made.inputIndex.value = typeof value === "number" ? value : 0;
    }),
    follow(model, "selected", (value) => {
      made.selected.value = selection(value);
    }),
    follow(model, "colormap", oneOf(COLORMAPS, made.colormap)),
    follow(model, "normalization", oneOf(NORMALIZATIONS, made.range)),
    effect(() => tell(model, "colormap", made.colormap.value)),
    effect(() => tell(model, "normalization", made.range.value)),
    effect(() => tell(model, "input_index", made.inputIndex.value)),
    effect(() => tell(model, "selected", made.selected.value)),
  ];
  const dispose = () => {
    for (const undo of unlink) undo();
    opened.dispose();
    // A page never lets go of a module, so it must let go of what it held.
    if (connection === opened) [state, connection] = [undefined, undefined];
  };
  signal?.addEventListener("abort", dispose, { once: true });
  return dispose;
}

function render({ el }: RenderProps): () => void {
  if (state === undefined || connection === undefined) return () => undefined;
  const removeView = connection.addView();
  const unmount = mount(el, state);
  return () => {
    unmount();
    removeView();
  };
}

function follow(model: AnyModel, name: string, take: (value: unknown) => void): () => void {
  const listener = () => take(model.get(name));
  listener();
  model.on(`change:${name}`, listener);
  return () => model.off(`change:${name}`, listener);
}

/** Takes a trait's value when it is one of `words`. */
function oneOf<T>(words: readonly T[], signal: Signal<T>): (value: unknown) => void {
  return (value) => {
    const known = words.find((word) => word === value);
    if (known !== undefined) signal.value = known;
  };
}

function tell(model: AnyModel, name: string, value: unknown): void {
  if (JSON.stringify(model.get(name) ?? null) === JSON.stringify(value)) return;
  model.set(name, value);
  try {
    model.save_changes();
  } catch (error) {
    console.warn(`nbglcnn: could not tell Python ${name}: ${error}`);
  }
}

function selection(value: unknown): Selection | null {
  if (typeof value !== "object" || value === null || !("layer" in value)) return null;
  const { layer } = value;
  const channel = "channel" in value ? value.channel : null;
  if (typeof layer !== "string") return null;
  return { layer, channel: typeof channel === "number" ? channel : null };
}

export default { initialize, render };
