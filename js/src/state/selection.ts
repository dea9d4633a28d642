// The user's selection: tab, layer, channels, pixel and example.
import { type Signal, signal } from "@preact/signals";
import type { HoverTarget, VIEW_NAMES } from "../messages.ts";

/** A layer by name, and a channel if one was selected. */
export interface Selection {
  readonly layer: string;
  readonly channel: number | null;
}

/** The section of the Layer tab. */
export type LayerSection = "maps" | "filters" | "explain" | "bend";
/** A tab; Python's view names are tabs too, except for the sections of the Layer tab. */
export type TabName = Exclude<(typeof VIEW_NAMES)[number], LayerSection> | "layer";

/** A pixel in maps of this size. */
export interface Pixel {
  readonly mapHeight: number;
  readonly mapWidth: number;
  readonly y: number;
  readonly x: number;
  /** Set by Python, which names the layer instead of the map's size. */
  readonly layer?: string;
}

/** An explained value: a layer's, at a channel and a pixel. */
export interface ExplainStep {
  readonly layer: string;
  readonly channel: number;
  readonly y: number;
  readonly x: number;
}

/**
 * The path of explained values, each an operand of the one before. It applies only while the same layer is explained.
 */
export interface ExplainTrail {
  readonly layer: string;
  readonly steps: readonly ExplainStep[];
}

/** Channels of a layer that are shown enlarged, side by side. */
export interface ComparedChannels {
  readonly layer: string;
  readonly channels: readonly number[];
}

export type ChannelOrder = "number" | "mean" | "max" | "variance" | "similarity";

export interface SelectionState {
  readonly tab: Signal<TabName>;
  readonly layerSection: Signal<LayerSection>;
  readonly selected: Signal<Selection | null>;
  /** Index of the displayed example in the batch. */
  readonly example: Signal<number>;
  /** The explained pixel, kept when changing to a layer of the same size. */
  readonly pixel: Signal<Pixel | null>;
  readonly comparedChannels: Signal<ComparedChannels | null>;
  readonly explainTrail: Signal<ExplainTrail | null>;
  readonly channelOrder: Signal<ChannelOrder>;
  /** The target under the pointer in any view, reported to Python. */
  readonly hoverTarget: Signal<HoverTarget | null>;
}

export const selectionState = (): SelectionState => ({
  tab: signal("network"),
  layerSection: signal("maps"),
  selected: signal(null),
  example: signal(0),
  pixel: signal(null),
  comparedChannels: signal(null),
  explainTrail: signal(null),
  channelOrder: signal("number"),
  hoverTarget: signal(null),
});
