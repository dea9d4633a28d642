// The notebook entry point, called by the loader: `initialize` once per Viewer, `render` once per view.
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import { batch, effect, type Signal } from "@preact/signals";
import { CommClient } from "./comm/comm_client.ts";
import type { TraitSync } from "./features/feature.ts";
import { FEATURES } from "./features/index.ts";
import { COLOR_RANGE_MODES, COLORMAPS } from "./messages.ts";
import type { ViewerState } from "./state.ts";
import { applyView, currentView, parseSelection } from "./view_sync.ts";
import { mount } from "./views/app.tsx";
import { WEBGL_RUNTIME } from "./webgl/runtime.ts";

/** The widget object of one model; all Viewers of a page share this module. */
export default function createWidget() {
  let opened: OpenViewer | undefined;
  return {
    /** The loader calls the returned function when the model is closed. */
    initialize({ model, signal }: InitializeProps): () => void {
      const made = openViewer(model);
      opened = made;
      const dispose = () => {
        made.dispose();
        // Hosts may keep a widget whose model is closed, so it must release its references.
        if (opened === made) opened = undefined;
      };
      if (signal?.aborted) dispose(); // the first messages may have closed the model
      return dispose;
    },
    render({ el }: RenderProps): () => void {
      if (opened === undefined) return () => undefined;
      const { client, state } = opened; // its first messages may close the model
      const removeView = client.addView();
      const unmount = mount(el, state, FEATURES);
      return () => {
        unmount();
        removeView();
      };
    },
  };
}

interface OpenViewer {
  readonly state: ViewerState;
  readonly client: CommClient;
  dispose(): void;
}

function openViewer(model: AnyModel): OpenViewer {
  // First of all: Python waits for the client's hello message.
  const client = new CommClient(model, WEBGL_RUNTIME, FEATURES);
  const { state } = client;
  const traits = FEATURES.flatMap((feature) => feature.traits?.(state) ?? []);
  const undo = linkTraits(model, [...traits, ...viewerTraits(state)]);
  return {
    state,
    client,
    dispose: () => {
      for (const one of undo) one();
      client.dispose();
    },
  };
}

/** Traits that belong to no feature. */
function viewerTraits(state: ViewerState): readonly TraitSync[] {
  let seen = "";
  return [
    {
      names: ["height"],
      apply(value) {
        state.maxHeight.value = typeof value === "number" ? value : null;
      },
    },
    {
      names: ["example"],
      apply(value) {
        state.example.value = typeof value === "number" ? value : 0;
      },
      values: () => [state.example.value],
    },
    {
      names: ["symmetric"],
      apply(value) {
        state.isSymmetric.value = value === true;
      },
      values: () => [state.isSymmetric.value],
    },
    {
      names: ["presenting"],
      apply(value) {
        state.isPresenting.value = value === true;
      },
      values: () => [state.isPresenting.value],
    },
    {
      names: ["colormap"],
      apply: acceptOneOf(COLORMAPS, state.colormap),
      values: () => [state.colormap.value],
    },
    {
      names: ["color_range"],
      apply: acceptOneOf(COLOR_RANGE_MODES, state.rangeMode),
      values: () => [state.rangeMode.value],
    },
    {
      names: ["image_ranges"],
      apply(value) {
        state.imageRanges.value = (value ?? {}) as typeof state.imageRanges.value;
      },
      values: () => [state.imageRanges.value],
    },
    // One message for a click that changes both.
    {
      names: ["selected", "view"],
      apply(selected, view) {
        state.selected.value = parseSelection(selected);
        const words = JSON.stringify(view);
        if (words !== seen) applyView(state, view);
        seen = words;
      },
      values() {
        const view = currentView(state);
        seen = JSON.stringify(view);
        return [state.selected.value, view];
      },
    },
  ];
}

/** Sync traits and signals both ways; the returned functions stop the sync. */
function linkTraits(model: AnyModel, traits: readonly TraitSync[]): (() => void)[] {
  let telling = false;
  const followed = traits.flatMap(({ names, apply }) => {
    // Python may set several traits at once: read all of them before any effect sends one back. Ignore our own changes:
    // `model.set` sets one trait after the other, so the second still has its old value.
    const all = () => telling || batch(() => apply(...names.map((name) => model.get(name))));
    all();
    return names.map((name) => {
      model.on(`change:${name}`, all);
      return () => model.off(`change:${name}`, all);
    });
  });
  const told = traits.flatMap(({ names, values }) =>
    values === undefined
      ? []
      : effect(() => {
          const now = values();
          telling = true;
          saveTraits(model, names, now);
          telling = false;
        }),
  );
  return [...followed, ...told];
}

/** Assign a trait's value to the signal if it is one of `allowedValues`. */
function acceptOneOf<T>(allowedValues: readonly T[], signal: Signal<T>): (value: unknown) => void {
  return (value) => {
    const known = allowedValues.find((word) => word === value);
    if (known !== undefined) signal.value = known;
  };
}

function saveTraits(model: AnyModel, names: readonly string[], values: readonly unknown[]): void {
  const changed: string[] = [];
  for (const [k, name] of names.entries()) {
    if (JSON.stringify(model.get(name) ?? null) !== JSON.stringify(values[k])) {
      model.set(name, values[k]);
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
