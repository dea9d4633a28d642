// The entry in a notebook, behind the loader: `initialize` is called once per Viewer, `render` once per view of it.
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import { batch, effect, type Signal } from "@preact/signals";
import { CommClient } from "./comm/client.ts";
import { at } from "./describe_unknown.ts";
import type { Moment } from "./features/edits/state.ts";
import type { Source } from "./features/sources/records.ts";
import type { TeachingRecord } from "./features/teaching/records.ts";
import type { TrainingRecord } from "./features/training/records.ts";
import { COLOR_RANGES, COLORMAPS } from "./messages.ts";
import type { ViewerState } from "./state.ts";
import { selectionOf, turn, viewOf } from "./view_sync.ts";
import { mount } from "./views/app.tsx";
import { WEBGL } from "./webgl/runtime.ts";

/** What one model needs of this module, which all Viewers of a page share. */
export default function createWidget() {
  let opened: Opened | undefined;
  return {
    /** The loader calls what this returns when the model's end is signalled. */
    initialize({ model, signal }: InitializeProps): () => void {
      const made = open(model);
      opened = made;
      const dispose = () => {
        made.dispose();
        // Hosts may keep a widget whose model is gone, so it must let go of what it held.
        if (opened === made) opened = undefined;
      };
      if (signal?.aborted) dispose(); // closed by its first words
      return dispose;
    },
    render({ el }: RenderProps): () => void {
      if (opened === undefined) return () => undefined;
      const { client, state } = opened; // its first words may end it
      const removeView = client.addView();
      const unmount = mount(el, state);
      return () => {
        unmount();
        removeView();
      };
    },
  };
}

interface History {
  readonly past: readonly Moment[];
  readonly future: readonly Moment[];
}
const NONE: History = { past: [], future: [] };

interface Opened {
  readonly state: ViewerState;
  readonly client: CommClient;
  dispose(): void;
}

function open(model: AnyModel): Opened {
  // First of all: Python waits for its hello.
  const client = new CommClient(model, WEBGL);
  const { state } = client;
  let seen = "";
  let telling = false;
  let trainingTurn = 0; // of Python's last word on a training
  let sourceTurn = 0; // of Python's last source: what we say of an older one comes too late
  // Python may set both at once: neither is told back before the other is taken. Our own are no news, and are
  // set one after the other: the one would be taken with what the other was before.
  const take = () =>
    telling ||
    batch(() => {
      state.selected.value = selectionOf(model.get("selected"));
      const view = model.get("view");
      const words = JSON.stringify(view);
      if (words !== seen) turn(state, view);
      seen = words;
    });
  // Both at once, as `take`.
  const takeEdits = () =>
    telling ||
    batch(() => {
      state.edited.value = (model.get("_edits") as Moment | undefined) ?? state.edited.peek();
      const { past, future } = (model.get("_history") as History | undefined) ?? NONE;
      state.past.value = past;
      state.future.value = future;
    });
  const undo = [
    follow(model, "_source", (value) => {
      const { source = null, turn = 0 } = (value ?? {}) as {
        source?: Source | null;
        turn?: number;
      };
      if (turn < sourceTurn) return; // some hosts give us our own words back, after Python's newer ones
      sourceTurn = turn;
      // What is the same stays the same object: our own comes back from some hosts.
      if (JSON.stringify(source) !== JSON.stringify(state.source.peek())) {
        state.source.value = source;
      }
    }),
    follow(model, "_training", (value) => {
      const { training = null, turn = 0 } = (value ?? {}) as {
        training?: TrainingRecord | null;
        turn?: number;
      };
      if (turn < trainingTurn) return;
      trainingTurn = turn;
      if (JSON.stringify(training) !== JSON.stringify(state.training.peek()))
        state.training.value = training;
    }),
    follow(model, "_teaching", (value) => {
      state.teaching.value = at(value, "id") ? (value as TeachingRecord) : null;
    }),
    follow(model, "_others", (value) => {
      state.others.value = { blob: "", ...(value as object) };
    }),
    follow(model, "height", (value) => {
      state.height.value = typeof value === "number" ? value : null;
    }),
    follow(model, "example", (value) => {
      state.example.value = typeof value === "number" ? value : 0;
    }),
    follow(model, "symmetric", (value) => {
      state.symmetric.value = value === true;
    }),
    follow(model, "presenting", (value) => {
      state.presenting.value = value === true;
    }),
    follow(model, "_edits", takeEdits),
    follow(model, "_history", takeEdits),
    follow(model, "selected", take),
    follow(model, "view", take),
    follow(model, "colormap", oneOf(COLORMAPS, state.colormap)),
    follow(model, "color_range", oneOf(COLOR_RANGES, state.range)),
    follow(model, "image_ranges", (value) => {
      state.imageRanges.value = (value ?? {}) as typeof state.imageRanges.value;
    }),
    effect(() => tell(model, "_source", { source: state.source.value, turn: sourceTurn })),
    effect(() => tell(model, "_training", { training: state.training.value, turn: trainingTurn })),
    effect(() => tell(model, "colormap", state.colormap.value)),
    effect(() => tell(model, "color_range", state.range.value)),
    effect(() => tell(model, "image_ranges", state.imageRanges.value)),
    effect(() => tell(model, "example", state.example.value)),
    effect(() => tell(model, "symmetric", state.symmetric.value)),
    effect(() => tell(model, "presenting", state.presenting.value)),
    effect(() => {
      const { edited, past, future } = state;
      const history = { past: past.value, future: future.value };
      telling = true;
      tell(model, "_edits", edited.value, "_history", history);
      telling = false;
    }),
    // One message for a click that changes both.
    effect(() => {
      const view = viewOf(state);
      seen = JSON.stringify(view);
      telling = true;
      tell(model, "selected", state.selected.value, "view", view);
      telling = false;
    }),
  ];
  return {
    state,
    client,
    dispose: () => {
      for (const one of undo) one();
      client.dispose();
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

/** Names and values of traits, one after the other. */
function tell(model: AnyModel, ...pairs: readonly unknown[]): void {
  const changed: string[] = [];
  for (let k = 0; k < pairs.length; k += 2) {
    const [name, value] = [String(pairs[k]), pairs[k + 1]];
    if (JSON.stringify(model.get(name) ?? null) !== JSON.stringify(value)) {
      model.set(name, value);
      changed.push(name);
    }
  }
  if (changed.length === 0) return;
  try {
    model.save_changes();
  } catch (error) {
    console.warn(`nbglcnn: could not tell Python ${changed}: ${error}`);
  }
}
