// The entry in a notebook, behind the loader: `initialize` is called once per Viewer, `render` once per view of it.
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import { effect, type Signal } from "@preact/signals";
import { Connection } from "./connection.ts";
import { COLORMAPS, NORMALIZATIONS } from "./messages.ts";
import { createState, type Selection, type ViewerState } from "./state.ts";
import { mount } from "./views/app.tsx";

/** What one model needs of this module, which all Viewers of a page share. */
export default function createWidget() {
  let opened: Opened | undefined;
  return {
    initialize({ model, signal }: InitializeProps): () => void {
      const made = open(model);
      opened = made;
      const dispose = () => {
        made.dispose();
        // Hosts may keep a widget whose model is gone, so it must let go of what it held.
        if (opened === made) opened = undefined;
      };
      signal?.addEventListener("abort", dispose, { once: true });
      if (signal?.aborted) dispose(); // closed by its first words
      return dispose;
    },
    render({ el }: RenderProps): () => void {
      if (opened === undefined) return () => undefined;
      const { connection, state } = opened; // its first words may end it
      const removeView = connection.addView();
      const unmount = mount(el, state);
      return () => {
        unmount();
        removeView();
      };
    },
  };
}

interface Opened {
  readonly state: ViewerState;
  readonly connection: Connection;
  dispose(): void;
}

function open(model: AnyModel): Opened {
  const state = createState();
  // First of all: Python waits for its hello.
  const connection = new Connection(model, state);
  const undo = [
    follow(model, "height", (value) => {
      state.height.value = typeof value === "number" ? value : null;
    }),
    follow(model, "input_index", (value) => {
      state.inputIndex.value = typeof value === "number" ? value : 0;
    }),
    follow(model, "selected", (value) => {
      state.selected.value = selection(value);
    }),
    follow(model, "colormap", oneOf(COLORMAPS, state.colormap)),
    follow(model, "normalization", oneOf(NORMALIZATIONS, state.range)),
    effect(() => tell(model, "colormap", state.colormap.value)),
    effect(() => tell(model, "normalization", state.range.value)),
    effect(() => tell(model, "input_index", state.inputIndex.value)),
    effect(() => tell(model, "selected", state.selected.value)),
  ];
  return {
    state,
    connection,
    dispose: () => {
      for (const one of undo) one();
      connection.dispose();
    },
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
