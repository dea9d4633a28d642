// The interface between features and a page: features/feature.py is its counterpart in Python.
import type { Signal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import type { Engine, InputOverride } from "../engine/types.ts";
import type { MessageBuffer } from "../message_buffers.ts";
import type { FromKernel, FromPage, PageData, VIEW_NAMES } from "../messages.ts";
import type { Network } from "../network/network.ts";
import type { Statistics } from "../plan/runtime.ts";
import type { Layer, Value } from "../plan/schema.ts";
import type { ColorLimits } from "../state/colors.ts";
import type { Selection, TabName, ViewerState } from "../state.ts";

/** The parts that a feature provides; all except `name` are optional. */
export interface Feature {
  /** The feature's name in Python and in pages. */
  readonly name: string;
  /** The feature's signals, merged into the state that all views share. */
  state?(): object;
  /** The Viewer's traits that the feature reads and writes. */
  traits?(state: ViewerState): readonly TraitSync[];
  /** Start the feature for a Viewer of this page. */
  start?(host: ViewerHost): FeatureInstance;
  /** The feature's views, by their Python names; in an exported page only those whose data the page contains. */
  views?(exported: PageData): readonly (typeof VIEW_NAMES)[number][];
  readonly tabs?: readonly Tab[];
  readonly slots?: { readonly [S in keyof Slots]?: FunctionComponent<Slots[S]> };
  /** The feature's style sheets, in cascade order. */
  readonly styles?: readonly string[];
}

/** Traits that are synchronised as a group. */
export interface TraitSync {
  readonly names: readonly string[];
  /** Apply the values after Python or another page has set one. */
  apply(...values: unknown[]): void;
  /** The current values in this page; if omitted, only Python sets them. */
  values?(): readonly unknown[];
}

/**
 * Synchronise a trait that Python and pages both set, in the form `{[recordField]: record, turn}`. Python counts its
 * own changes in `turn`, and ignores a page's message with an older turn.
 */
export function recordTraitSync<T>(
  name: string,
  recordField: string,
  record: Signal<T | null>,
): TraitSync {
  let turn = 0; // turn of Python's last change
  return {
    names: [name],
    apply(value) {
      const given = (value ?? {}) as { readonly turn?: number; readonly [name: string]: unknown };
      if ((given.turn ?? 0) < turn) return; // some hosts echo our message after Python's newer one
      turn = given.turn ?? 0;
      const found = given[recordField] ?? null;
      // Keep the object if an equal record arrives: some hosts echo our own.
      if (JSON.stringify(found) !== JSON.stringify(record.peek())) record.value = found as T | null;
    },
    values: () => [{ [recordField]: record.value, turn }],
  };
}

/** The interface of a Viewer in this page to its features. */
export interface ViewerHost {
  /** This page's name. */
  readonly pageId: string;
  readonly state: ViewerState;
  readonly engine: Engine;
  /** Undefined in an exported page. */
  readonly python?: PythonLink;
  /** Undefined in a notebook. */
  readonly exported?: ExportedPage;
  /** Fetch a blob from Python or the exported page; rejects if it doesn't arrive. */
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Release a fetched blob, or cancel its request. */
  release(name: string): void;
  /** Override an input; null ends the override. `isTakenOver`: Python, or the page, has adopted the last input. */
  feed(newOverride: InputOverride | null, isTakenOver?: boolean): Promise<void>;
  /** Read a value's elements. */
  read(key: string): Promise<Float32Array>;
}

export interface PythonLink {
  send(message: FromPage, buffers?: ArrayBuffer[]): void;
  traitValue(name: string): unknown;
  /** Apply a message on top of revision `base`, if that is current; `apply` returns whether the message is complete. */
  applyRevision(
    message: { readonly base: number; readonly revision: number },
    apply: () => boolean,
  ): void;
  /** Report a change that pending reads may wait for. */
  notifyReads(): void;
}

export interface ExportedPage {
  readonly record: PageData;
  /** Names of layers, modules, inputs and outputs. */
  valueKeys(): readonly string[];
  /** Resolve when all requested work is done. */
  settled(): Promise<unknown>;
}

export type MessageHandlers = {
  readonly [T in FromKernel["type"]]?: (
    message: Extract<FromKernel, { type: T }>,
    buffers: readonly MessageBuffer[],
  ) => void;
};

/** A feature's instance for one Viewer. */
export interface FeatureInstance {
  /** Handlers for messages from Python. */
  readonly messages?: MessageHandlers;
  /** Called for each read; the returned function tells whether the read must still wait for this feature. */
  onRead?(): () => boolean;
  /** Called when the exported page has loaded all its data. */
  onPageReady?(): void | Promise<void>;
  /** Called when a script of an exported page has set an input. */
  onInputSet?(): void;
  /** Properties added to `window.nbglcnn` for scripts of an exported page. */
  readonly scriptApi?: object;
  /** Free the feature's resources. */
  close?(): void;
}

/** Slots in the views that features fill, with the properties of each slot's component. */
export interface Slots {
  /** In the bar: before the model's name, after it, and at the end. */
  readonly barStart: object;
  readonly barName: object;
  readonly barEnd: object;
  /** Between the bar and the content. */
  readonly drawer: object;
  /** Invisible components that listen to keys and clicks. */
  readonly globalListeners: object;
  readonly status: object;
  /** Beside a layer's name; `layers`: all layers of a collapsed module. */
  readonly layerMark: { layer: string; layers?: readonly Layer[] };
  /** Below a stage, if two networks are compared. */
  readonly difference: { layers: readonly Layer[] };
  /** The colour bar of maps while the input is live. */
  readonly liveLegend: LegendProps;
  /** A section of the Layer tab, and the tools beside the layer's name while it is open. */
  readonly bend: { network: Network; value: Value };
  readonly bendTools: { value: Value };
}

export interface LegendProps {
  value: Value;
  statistics: Statistics | null;
  /** The channel whose own range the legend shows. */
  channel?: number | null;
  /** The colour limits, if they differ from the value's range. */
  colorLimits?: ColorLimits | null;
}

export interface Tab {
  readonly name: TabName;
  readonly title: string;
  readonly component: FunctionComponent<{ network: Network }>;
  readonly keyBindings: TabKeyBindings;
  /** The tab to insert before; the last position if omitted. */
  readonly before?: TabName;
  /** Whether the tab has content to show; true by default. */
  available?(network: Network, state: ViewerState): boolean;
}

/** Key bindings of a tab. */
export interface TabKeyBindings {
  /** The layers that ← and → step through, as selection names, and the index of the shown one; -1 if none is. */
  layers(network: Network, selected: Selection | null): { names: readonly string[]; at: number };
  /** The channel from which ↑ and ↓ continue; without it these keys do nothing in the tab. */
  channel?(network: Network, selected: Selection | null): Selection | null;
  /** Selector of the element to focus when another layer is shown. */
  readonly focusSelector: string;
  /** Esc leads to the first tab; without it, Esc returns the keyboard to the notebook. */
  readonly escapeToFirstTab?: true;
  /** Handle a key that only this tab uses. Returns whether the key was handled. */
  onKey?(key: string, views: { readonly root: HTMLElement; readonly state: ViewerState }): boolean;
}

/** Key bindings in which ← and → step from stage to stage. */
export const STAGE_KEY_BINDINGS: TabKeyBindings = {
  layers: (network, selected) => ({
    names: network.stages.map((stage) => stage.valueKey),
    at: network.stages.findIndex((stage) =>
      stage.layers.some((layer) => layer.name === selected?.layer),
    ),
  }),
  focusSelector: ".nbg-picture",
};
