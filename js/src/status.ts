// The state of a viewer, and the texts for all states: the engine and the comm client choose one, the views display it.
import { formatPlural } from "./number_format.ts";
import type { DeviceUnavailable } from "./plan/runtime.ts";

/** The state of a viewer. Only "ready" shows no message under the pictures. */
export type StatusPhase =
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

/** The message under the pictures: what happened, the cause, what still works, and one action. */
export interface Status {
  readonly phase: StatusPhase;
  readonly title: string;
  readonly text: string;
  /** Progress, shown as a bar when both are given. */
  readonly done?: number;
  readonly total?: number;
  /** Shown on demand under `action` ("What was found"). */
  readonly detail?: string;
  readonly action?: string;
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);

const UNAVAILABLE_TITLES: Record<DeviceUnavailable["reason"], string> = {
  "no-webgl2": "This browser offers no WebGL 2",
  "no-float-textures": "This browser’s WebGL 2 supports neither float32 nor float16 values",
  "lost-at-birth": "This browser returned a lost graphics context",
};

/** The texts for all states; the connection chooses one, the views display it. */
export const statuses = {
  connecting: (): Status => ({
    phase: "connecting",
    title: "Connecting to Python",
    text: "Waiting for the network and its weights.",
  }),
  opening: (): Status => ({
    phase: "connecting",
    title: "Opening the network",
    text: "This page contains the network and its weights.",
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
    title: `Preparing the GPU: ${done} of ${total} shaders`,
    text: `${seconds.toFixed(1)} s so far. The page stays usable.`,
    done,
    total,
  }),
  running: (): Status => ({
    phase: "running",
    title: "Running",
    text: "The first pictures appear soon.",
  }),
  ready: (): Status => ({ phase: "ready", title: "Live", text: "" }),
  lost: (layerCount: number): Status => ({
    phase: "lost",
    title: "The graphics context was lost",
    text:
      "The browser reset the GPU, often after sleep or a driver update. " +
      `Restoring ${formatPlural(layerCount, "layer")} and ${layerCount === 1 ? "its" : "their"} weights.`,
  }),
  restarted: (isNetworkLoaded = true): Status => ({
    phase: "restarted",
    title: "Python restarted or stopped. The page still works without it.",
    text: isNetworkLoaded
      ? "You can still use everything shown here. Python can’t read or write this Viewer until you run the " +
        "cell again."
      : "The network has not loaded. Run the cell again.",
    action: "How to reconnect",
    detail:
      "Run the cells that create the model and the Viewer again. The new Viewer replaces this one.",
  }),
  /** `isStandalonePage`: the page has no Python. */
  unsupported: (
    reason: DeviceUnavailable["reason"],
    deviceDetail: string,
    isStandalonePage = false,
  ): Status => ({
    phase: "unsupported",
    title: UNAVAILABLE_TITLES[reason],
    text: `Python computed the pictures above; they don’t update. ${
      isStandalonePage ? "" : "Everything under viewer.activations works. "
    }To see the network live, turn on hardware acceleration or use another browser.`,
    action: "What was found",
    detail: deviceDetail,
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
