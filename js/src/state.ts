// What a view can see and do: one set of signals per viewer, of its engine, of its client in Python, and of the views.
import { type Signal, signal } from "@preact/signals";
import { createSignals, type EngineSignals } from "./engine/signals.ts";
import type { ColorMapName, LayerTime } from "./gl/types.ts";
import type { COLOR_RANGES, Spot, Verified, VIEWS } from "./messages.ts";
import { type Status, says } from "./status.ts";

/** The comparison with the framework's own values, when it was made. */
export interface Parity extends Pick<Verified, "reference" | "layers" | "flawed"> {
  /** By the self-test, of stretches of each layer; else of every value there is. */
  readonly sampled: boolean;
}

/** A layer by name, and a channel of it when one was picked. */
export interface Selection {
  readonly layer: string;
  readonly channel: number | null;
}

/** Whose ends the colour map has: each channel its own, the layer's for all, or those the layer had when "fixed" was chosen. */
export type RangeMode = (typeof COLOR_RANGES)[number];
/** The least and the greatest value that a layer's colours are for. */
export interface Ends {
  readonly low: number;
  readonly high: number;
}

export type Order = "number" | "mean" | "max" | "variance" | "similarity";
/** What Python calls a view is a tab, but for those that are sections of the Layer tab. */
export type TabName = Exclude<(typeof VIEWS)[number], Section> | "layer";

/** How the Network tab shows the network. */
export type Form = "strip" | "graph";

/** A CSS transform of the graph: a zoom, and where its origin is. */
export interface Camera {
  readonly zoom: number;
  readonly x: number;
  readonly y: number;
}

/** What of a layer the Layer tab shows. */
export type Section = "maps" | "filters" | "explain";

/** What a layer costs: milliseconds, and what the layer table says. */
export type Cost = "ms" | "parameters" | "macs" | "bytes";

/** How long each layer took by itself; index -1 is what belongs to none. */
export type Profile = ReadonlyMap<number, LayerTime>;

/** A pixel of maps of this size. */
export interface Pixel {
  readonly height: number;
  readonly width: number;
  readonly y: number;
  readonly x: number;
  /** Chosen from Python, which names the layer instead of its size. */
  readonly layer?: string;
}

/** Channels of a layer that are shown large beside each other. */
export interface Beside {
  readonly layer: string;
  readonly channels: readonly number[];
}

/** Everything that views of one viewer share. Views write the second group, whoever feeds the engine the first. */
export interface ViewerState extends EngineSignals {
  readonly status: Signal<Status>;
  readonly parity: Signal<Parity | null>;
  /** Whether Python can still be asked; the page goes on without it. */
  readonly connected: Signal<boolean>;
  /** URL of a still picture from Python, for a page that cannot draw. */
  readonly poster: Signal<string | null>;
  /** Why views whose code comes later are not here, "" while that is on its way. */
  readonly roomTrouble: Signal<string>;
  /** The tallest the viewer may get, in CSS pixels; its content scrolls then. */
  readonly height: Signal<number | null>;

  /** Which example of the batch is shown. */
  readonly example: Signal<number>;
  readonly selected: Signal<Selection | null>;
  readonly tab: Signal<TabName>;
  /** Null is what suits the network and the room. */
  readonly form: Signal<Form | null>;
  /** Ids of the graph's open groups; null before somebody opened or closed one. */
  readonly opened: Signal<ReadonlySet<string> | null>;
  /** Null fits the whole graph in. */
  readonly camera: Signal<Camera | null>;
  readonly section: Signal<Section>;
  /** The pixel that is explained, kept from layer to layer of the same size. */
  readonly pixel: Signal<Pixel | null>;
  readonly beside: Signal<Beside | null>;
  readonly colormap: Signal<ColorMapName>;
  readonly range: Signal<RangeMode>;
  /** Sequential colour maps go from −max to max too. */
  readonly symmetric: Signal<boolean>;
  /** For the range "fixed": each layer's ends since that was chosen. */
  readonly ends: Signal<ReadonlyMap<string, Ends>>;
  readonly order: Signal<Order>;
  /** What the bars below stages stand for. */
  readonly cost: Signal<Cost>;
  /** Layers' times, as far as they are measured; null before anybody asked. */
  readonly profile: Signal<Profile | null>;
  /** What is under the pointer in any view, for Python. */
  readonly pointed: Signal<Spot | null>;
}

export function createState(signals = createSignals()): ViewerState {
  return {
    ...signals,
    status: signal(says.connecting()),
    parity: signal(null),
    connected: signal(true),
    poster: signal(null),
    roomTrouble: signal(""),
    height: signal(null),
    example: signal(0),
    selected: signal(null),
    tab: signal("network"),
    form: signal(null),
    opened: signal(null),
    camera: signal(null),
    section: signal("maps"),
    pixel: signal(null),
    beside: signal(null),
    colormap: signal("signed"),
    range: signal("layer"),
    symmetric: signal(false),
    ends: signal(new Map()),
    order: signal("number"),
    cost: signal("ms"),
    profile: signal(null),
    pointed: signal(null),
  };
}
