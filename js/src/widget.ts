// The entry in a notebook, behind the loader: `initialize` is called once per Viewer, `render` once per view of it.
import type { AnyModel, InitializeProps, RenderProps } from "@anywidget/types";
import { batch, effect, type Signal } from "@preact/signals";
import { CommClient } from "./comm/client.ts";
import type { Trait } from "./features/feature.ts";
import { FEATURES } from "./features/index.ts";
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
      const unmount = mount(el, state, FEATURES);
      return () => {
        unmount();
        removeView();
      };
    },
  };
}

interface Opened {
  readonly state: ViewerState;
  readonly client: CommClient;
  dispose(): void;
}

function open(model: AnyModel): Opened {
  // First of all: Python waits for its hello.
  const client = new CommClient(model, WEBGL, FEATURES);
  const { state } = client;
  const traits = FEATURES.flatMap((feature) => feature.traits?.(state) ?? []);
  const undo = link(model, [...traits, ...traitsOf(state)]);
  return {
    state,
    client,
    dispose: () => {
      for (const one of undo) one();
      client.dispose();
    },
  };
}

/** The traits of no feature. */
function traitsOf(state: ViewerState): readonly Trait[] {
  let seen = "";
  return [
    {
      names: ["height"],
      take(value) {
        state.height.value = typeof value === "number" ? value : null;
      },
    },
    {
      names: ["example"],
      take(value) {
        state.example.value = typeof value === "number" ? value : 0;
      },
      tell: () => [state.example.value],
    },
    {
      names: ["symmetric"],
      take(value) {
        state.symmetric.value = value === true;
      },
      tell: () => [state.symmetric.value],
    },
    {
      names: ["presenting"],
      take(value) {
        state.presenting.value = value === true;
      },
      tell: () => [state.presenting.value],
    },
    {
      names: ["colormap"],
      take: oneOf(COLORMAPS, state.colormap),
      tell: () => [state.colormap.value],
    },
    {
      names: ["color_range"],
      take: oneOf(COLOR_RANGES, state.range),
      tell: () => [state.range.value],
    },
    {
      names: ["image_ranges"],
      take(value) {
        state.imageRanges.value = (value ?? {}) as typeof state.imageRanges.value;
      },
      tell: () => [state.imageRanges.value],
    },
    // One message for a click that changes both.
    {
      names: ["selected", "view"],
      take(selected, view) {
        state.selected.value = selectionOf(selected);
        const words = JSON.stringify(view);
        if (words !== seen) turn(state, view);
        seen = words;
      },
      tell() {
        const view = viewOf(state);
        seen = JSON.stringify(view);
        return [state.selected.value, view];
      },
    },
  ];
}

/** Follows traits and tells of them; the results end that. */
function link(model: AnyModel, traits: readonly Trait[]): (() => void)[] {
  let telling = false;
  const followed = traits.flatMap(({ names, take }) => {
    // Python may set several traits at once: read all of them before any effect sends one back. Ignore our own changes:
    // `model.set` sets one trait after the other, so the second still has its old value.
    const all = () => telling || batch(() => take(...names.map((name) => model.get(name))));
    all();
    return names.map((name) => {
      model.on(`change:${name}`, all);
      return () => model.off(`change:${name}`, all);
    });
  });
  const told = traits.flatMap(({ names, tell: values }) =>
    values === undefined
      ? []
      : effect(() => {
          const now = values();
          telling = true;
          tell(model, names, now);
          telling = false;
        }),
  );
  return [...followed, ...told];
}

/** Takes a trait's value when it is one of `words`. */
function oneOf<T>(words: readonly T[], signal: Signal<T>): (value: unknown) => void {
  return (value) => {
    const known = words.find((word) => word === value);
    if (known !== undefined) signal.value = known;
  };
}

function tell(model: AnyModel, names: readonly string[], values: readonly unknown[]): void {
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
