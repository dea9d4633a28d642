// What the reader looks at: tab, layer, channels, pixel and example.
import { type Signal, signal } from "@preact/signals";
import type { HoverTarget, VIEWS } from "../messages.ts";

/** A layer by name, and a channel of it when one was picked. */
export interface Selection {
  readonly layer: string;
  readonly channel: number | null;
}

/** What of a layer the Layer tab shows. */
export type LayerSection = "maps" | "filters" | "explain" | "bend";
/** What Python calls a view is a tab, but for those that are sections of the Layer tab. */
export type TabName = Exclude<(typeof VIEWS)[number], LayerSection> | "layer";

/** A pixel of maps of this size. */
export interface Pixel {
  readonly height: number;
  readonly width: number;
  readonly y: number;
  readonly x: number;
  /** Chosen from Python, which names the layer instead of its size. */
  readonly layer?: string;
}

/** A number that was explained: a layer's, at a channel and a pixel. */
export interface ExplainStep {
  readonly layer: string;
  readonly channel: number;
  readonly y: number;
  readonly x: number;
}

/** The way to the layer that is explained, from number to number that it is made of; as long as it is that layer. */
export interface ExplainTrail {
  readonly layer: string;
  readonly steps: readonly ExplainStep[];
}

/** Channels of a layer that are shown large beside each other. */
export interface ComparedChannels {
  readonly layer: string;
  readonly channels: readonly number[];
}

export type ChannelOrder = "number" | "mean" | "max" | "variance" | "similarity";

export interface SelectionState {
  readonly tab: Signal<TabName>;
  readonly layerSection: Signal<LayerSection>;
  readonly selected: Signal<Selection | null>;
  /** Which example of the batch is shown. */
  readonly example: Signal<number>;
  /** The pixel that is explained, kept from layer to layer of the same size. */
  readonly pixel: Signal<Pixel | null>;
  readonly comparedChannels: Signal<ComparedChannels | null>;
  readonly explainTrail: Signal<ExplainTrail | null>;
  readonly channelOrder: Signal<ChannelOrder>;
  /** What is under the pointer in any view, for Python. */
  readonly pointerSpot: Signal<HoverTarget | null>;
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
  pointerSpot: signal(null),
});
