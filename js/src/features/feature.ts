// What a feature offers a page, and what a page hands it: features/feature.py has the same in Python.
import type { Signal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import type { Engine, InputOverride } from "../engine/types.ts";
import type { MessageBuffer } from "../message_buffers.ts";
import type { FromKernel, FromPage, PageData, VIEWS } from "../messages.ts";
import type { Network } from "../network/network.ts";
import type { Statistics } from "../plan/runtime.ts";
import type { Layer, Value } from "../plan/schema.ts";
import type { ColorLimits } from "../state/colors.ts";
import type { Selection, TabName, ViewerState } from "../state.ts";

/** What one feature offers. What is left out, it doesn't do. */
export interface Feature {
  /** In Python and in pages. */
  readonly name: string;
  /** Its signals, which become part of the state that all views share. */
  state?(): object;
  /** The Viewer's traits that it follows and sets. */
  traits?(state: ViewerState): readonly TraitSync[];
  /** Begins in a Viewer of this page. */
  start?(host: ViewerHost): FeatureInstance;
  /** Its views, by their names in Python; in an exported page those for which that has the data. */
  views?(exported: PageData): readonly (typeof VIEWS)[number][];
  readonly tabs?: readonly Tab[];
  readonly slots?: { readonly [S in keyof Slots]?: FunctionComponent<Slots[S]> };
  /** Its style sheets, in the order in which later rules win. */
  readonly styles?: readonly string[];
}

/** Traits that are taken and told together. */
export interface TraitSync {
  readonly names: readonly string[];
  /** Their values, when Python or another page has set one. */
  apply(...values: unknown[]): void;
  /** What they are in this page; without it Python alone sets them. */
  values?(): readonly unknown[];
}

/**
 * The trait of a record that Python and pages both set, as `{[field]: record, turn}`. Python counts its own changes in
 * `turn`, and ignores what a page says of an older one.
 */
export function recordTraitSync<T>(
  name: string,
  field: string,
  record: Signal<T | null>,
): TraitSync {
  let turn = 0; // of Python's last change
  return {
    names: [name],
    apply(value) {
      const given = (value ?? {}) as { readonly turn?: number; readonly [name: string]: unknown };
      if ((given.turn ?? 0) < turn) return; // some hosts return our own message after Python's newer one
      turn = given.turn ?? 0;
      const found = given[field] ?? null;
      // An equal record stays the same object: some hosts return our own.
      if (JSON.stringify(found) !== JSON.stringify(record.peek())) record.value = found as T | null;
    },
    values: () => [{ [field]: record.value, turn }],
  };
}

/** A Viewer of this page, as its features see it. */
export interface ViewerHost {
  /** This page's name. */
  readonly page: string;
  readonly state: ViewerState;
  readonly engine: Engine;
  /** Undefined in an exported page. */
  readonly python?: PythonLink;
  /** Undefined in a notebook. */
  readonly exported?: ExportedPage;
  /** A blob that Python has, or the exported page; rejects where it does not come. */
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Lets go of it. */
  release(name: string): void;
  /** Feeds an input; null ends that, with `isTakenOver` once Python, or the page, has taken over what was fed last. */
  feed(fed: InputOverride | null, isTakenOver?: boolean): Promise<void>;
  /** A value's elements. */
  read(key: string): Promise<Float32Array>;
}

export interface PythonLink {
  send(message: FromPage, buffers?: ArrayBuffer[]): void;
  traitValue(name: string): unknown;
  /** Takes a message on top of the revision `base`, if that is here; `take` returns whether it is all there. */
  applyRevision(
    message: { readonly base: number; readonly revision: number },
    take: () => boolean,
  ): void;
  /** Something has changed that reads wait for. */
  notifyReads(): void;
}

export interface ExportedPage {
  readonly record: PageData;
  /** Names of layers, modules, inputs and outputs. */
  keys(): readonly string[];
  /** What was asked for is done. */
  settled(): Promise<unknown>;
}

export type MessageHandlers = {
  readonly [T in FromKernel["type"]]?: (
    message: Extract<FromKernel, { type: T }>,
    buffers: readonly MessageBuffer[],
  ) => void;
};

/** A feature in one Viewer. */
export interface FeatureInstance {
  /** What is done with messages that Python sends to it. */
  readonly messages?: MessageHandlers;
  /** A read came: the result says whether it must still wait for this feature. */
  onRead?(): () => boolean;
  /** All that an exported page holds is here. */
  onPageReady?(): void | Promise<void>;
  /** A script of an exported page has given an input. */
  onInputSet?(): void;
  /** What scripts of an exported page find in `window.nbglcnn`. */
  readonly scriptApi?: object;
  /** Frees what it holds. */
  close?(): void;
}

/** Places in the views that features fill, and the properties of what stands there. */
export interface Slots {
  /** In the bar: before the model's name, behind it, and at the end. */
  readonly barStart: object;
  readonly barName: object;
  readonly barEnd: object;
  /** Between bar and content. */
  readonly drawer: object;
  /** Beside everything: what listens to keys and clicks. */
  readonly globalListeners: object;
  readonly status: object;
  /** Beside a layer's name; `layers`: all that a closed module stands for. */
  readonly layerMark: { layer: string; layers?: readonly Layer[] };
  /** Below a stage of two networks that are compared. */
  readonly difference: { layers: readonly Layer[] };
  /** The colour bar of maps whose input is live. */
  readonly liveLegend: LegendProps;
  /** A section of the Layer tab, and what stands beside the layer's name then. */
  readonly bend: { network: Network; value: Value };
  readonly bendTools: { value: Value };
}

export interface LegendProps {
  value: Value;
  statistics: Statistics | null;
  /** Numbers it for a range of the channel's own. */
  channel?: number | null;
  /** The ends of the colours where those are not the values' own. */
  limits?: ColorLimits | null;
}

export interface Tab {
  readonly name: TabName;
  readonly title: string;
  readonly component: FunctionComponent<{ network: Network }>;
  readonly keys: TabKeys;
  /** The tab that it stands before; without it the last. */
  readonly before?: TabName;
  /** Whether there is anything to show in it; all have it by default. */
  available?(network: Network, state: ViewerState): boolean;
}

/** What keys do in a tab. */
export interface TabKeys {
  /** The layers that ← and → lead through, by the names that are selected, and which one is shown; -1 for none. */
  layers(network: Network, selected: Selection | null): { names: readonly string[]; at: number };
  /** Which channel ↑ and ↓ go on from; these keys do nothing here without it. */
  channel?(network: Network, selected: Selection | null): Selection | null;
  /** What gets the focus when another layer is shown, as a selector. */
  readonly focusSelector: string;
  /** Esc leads to the first tab; without it the notebook gets the keyboard back. */
  readonly escapeToFirstTab?: true;
  /** Keys that only this tab has; whether it was one. */
  onKey?(key: string, views: { readonly root: HTMLElement; readonly state: ViewerState }): boolean;
}

/** ← and → lead from stage to stage. */
export const STAGE_KEYS: TabKeys = {
  layers: (network, selected) => ({
    names: network.stages.map((stage) => stage.key),
    at: network.stages.findIndex((stage) =>
      stage.layers.some((layer) => layer.name === selected?.layer),
    ),
  }),
  focusSelector: ".nbg-picture",
};
