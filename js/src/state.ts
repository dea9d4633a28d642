// What a view can see and do: one set of signals per viewer, written by the connection, read by the views.
import { type Signal, signal } from "@preact/signals";
import type {
  Capabilities,
  ColorMapName,
  DeviceUnavailable,
  LayerTime,
  RunInfo,
  Session,
} from "./gl/types.ts";
import type { NORMALIZATIONS, Spot, Verified } from "./messages.ts";
import type { PlanHeader } from "./plan.ts";

/** Where a viewer stands. Only "ready" shows no message under the pictures. */
export type Phase =
  | "connecting"
  | "receiving"
  | "compiling"
  | "running"
  | "ready"
  | "lost"
  | "restarted"
  | "unsupported"
  | "error"
  | "closed";

/** The message under the pictures: the thing, the cause, what still works, and one action. */
export interface Status {
  readonly phase: Phase;
  readonly title: string;
  readonly text: string;
  /** Progress, shown as a bar when both are given. */
  readonly done?: number;
  readonly total?: number;
  /** Shown on demand under `action` ("What was found"). */
  readonly detail?: string;
  readonly action?: string;
}

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
export type RangeMode = (typeof NORMALIZATIONS)[number];
/** The least and the greatest value that a layer's colours are for. */
export interface Ends {
  readonly low: number;
  readonly high: number;
}

export type Order = "number" | "mean" | "max" | "variance" | "similarity";
export type Tab = "network" | "layer" | "profile" | "compare";

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

/** Everything that views of one viewer share. Views write the second group, the connection the first. */
export interface ViewerState {
  readonly plan: Signal<PlanHeader | null>;
  readonly session: Signal<Session | null>;
  readonly status: Signal<Status>;
  /** The last run; views redraw when its `sequence` changes. */
  readonly run: Signal<RunInfo | null>;
  /** The last run once more, with nothing else on the device; null until there is such a one. */
  readonly timed: Signal<RunInfo | null>;
  /** A run is under way. */
  readonly running: Signal<boolean>;
  /** Runs that ended within the last second; 0 when idle. */
  readonly fps: Signal<number>;
  readonly capabilities: Signal<Capabilities | null>;
  readonly parity: Signal<Parity | null>;
  /** Whether Python can still be asked; the page goes on without it. */
  readonly connected: Signal<boolean>;
  /** URL of a still picture from Python, for a page that cannot draw. */
  readonly poster: Signal<string | null>;
  /** The tallest the viewer may get, in CSS pixels; its content scrolls then. */
  readonly height: Signal<number | null>;

  /** Which example of the batch is shown. */
  readonly inputIndex: Signal<number>;
  readonly selected: Signal<Selection | null>;
  readonly tab: Signal<Tab>;
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

/** The last run, by the best time that is known of it. */
export function lastRun({ run, timed }: ViewerState): RunInfo | null {
  return timed.value ?? run.value;
}

export function createState(): ViewerState {
  return {
    plan: signal(null),
    session: signal(null),
    status: signal(says.connecting()),
    run: signal(null),
    timed: signal(null),
    running: signal(false),
    fps: signal(0),
    capabilities: signal(null),
    parity: signal(null),
    connected: signal(true),
    poster: signal(null),
    height: signal(null),
    inputIndex: signal(0),
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

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);

const LACKS: Record<DeviceUnavailable["reason"], string> = {
  "no-webgl2": "This browser offers no WebGL 2",
  "no-float-textures": "This browser’s WebGL 2 cannot draw 32-bit floats, nor 16-bit ones",
  "lost-at-birth": "This browser gives a graphics context that is already lost",
};

/** The words for every state, in one place; the connection chooses, the views show. */
export const says = {
  connecting: (): Status => ({
    phase: "connecting",
    title: "Connecting to Python",
    text: "The network and its weights come from the kernel.",
  }),
  receiving: (done: number, total: number): Status => ({
    phase: "receiving",
    title: "Receiving weights",
    text: `${megabytes(done)} of ${megabytes(total)} MB.`,
    done,
    total,
  }),
  compiling: (done: number, total: number, seconds: number): Status => ({
    phase: "compiling",
    title: `Compiling shaders, ${done} of ${total}`,
    text: `${seconds.toFixed(1)} s so far. The page stays usable.`,
    done,
    total,
  }),
  running: (): Status => ({
    phase: "running",
    title: "Running",
    text: "The first pictures follow.",
  }),
  ready: (): Status => ({ phase: "ready", title: "Live", text: "" }),
  lost: (layers: number): Status => ({
    phase: "lost",
    title: "The graphics context was lost",
    text:
      "The browser took the GPU back, often after sleep or a driver reset. " +
      `Rebuilding ${layers} layers and their weights.`,
  }),
  restarted: (complete = true): Status => ({
    phase: "restarted",
    title: "Python restarted or stopped; the page goes on without it",
    text: complete
      ? "Everything shown still works here. Python can’t read or write this Viewer until the cell " +
        "is run again."
      : "The network had not arrived yet, so that there is nothing to show until the cell is run again.",
    action: "How to reconnect",
    detail:
      "Run the cells that make the model and the Viewer again; a new Viewer takes this place.",
  }),
  unsupported: (reason: DeviceUnavailable["reason"], found: string): Status => ({
    phase: "unsupported",
    title: LACKS[reason],
    text:
      "The pictures above were computed by Python and stand still. Everything under " +
      "viewer.activations works. To see it live, turn on hardware acceleration or use another browser.",
    action: "What was found",
    detail: found,
  }),
  failed: (title: string, text: string, detail?: string): Status => ({
    phase: "error",
    title,
    text,
    ...(detail === undefined ? {} : { action: "Details", detail }),
  }),
  closed: (): Status => ({
    phase: "closed",
    title: "This Viewer was closed",
    text: "Run the cell again to bring it to life.",
  }),
} as const;
