// State of the input's source, and its status in this page.
import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { InputOverride } from "../../engine/types.ts";
import type { InputState } from "../../state/input.ts";
import type { Source } from "./records.ts";

/** Why a camera or another source failed. */
export type SourceFailure =
  | "none" // no camera found
  | "denied"
  | "insecure" // neither https nor localhost
  | "taken" // in use by another program
  | "framed" // in an iframe without permission
  | "damaged" // a file that cannot be decoded
  | "lost"; // ended: unplugged, or the tab was suspended

export interface SourceStatus {
  /**
   * "off": no source; "waiting": for a click, a file or data from Python; "asking": for the browser's permission;
   * "live": pictures follow each other; "still": the last picture stays; "elsewhere": another page has the source.
   */
  readonly phase: "off" | "waiting" | "asking" | "live" | "still" | "elsewhere" | "failed";
  readonly failure: SourceFailure | null;
  /** The error's details, for "Details"; "" if none. */
  readonly detail: string;
  /** Pictures in the last second. */
  readonly picturesPerSecond: number;
}

export const SOURCE_OFF: SourceStatus = {
  phase: "off",
  failure: null,
  detail: "",
  picturesPerSecond: 0,
};

/** A client's services for sources: input overrides, values, blobs, and reports to Python. */
export interface Feeder {
  /** This page's name, for a source's owner. */
  readonly pageId: string;
  feed(newOverride: InputOverride | null): Promise<void>;
  /** Read the current input, before edits. */
  read(key: string): Promise<Float32Array>;
  /** Fetch a blob from Python or the exported page; rejects if it doesn't arrive. */
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Release a fetched blob, or cancel its request. */
  release(name: string): void;
  /** Report that a picture was fed; `isStill`: no other follows automatically. */
  reportFedInput(isStill: boolean, picturesPerSecond: number): void;
}

/** The drawer's controls for the current source, provided by the source's code. */
export interface SourceControls {
  /** Start after a click, if the browser asks for permission. */
  start(): void;
  /** Open a selected, dropped or pasted file. */
  openFile(file: Blob, title: string): void;
  /** The stream's or file's video element; null if there is none. */
  readonly video: HTMLVideoElement | null;
  /** The element that shows the video to the reader. */
  readonly preview: HTMLVideoElement | HTMLCanvasElement | null;
  /** The drawing canvas, at an integer multiple of the input's size; null if there is none. */
  readonly canvas: HTMLCanvasElement | null;
  /** Notify the source that the drawing has changed. */
  onDrawingChanged(): void;
  /** Item `index` of a data set as RGBA in the input's size; undefined while it is loading. */
  itemImage(index: number): ImageData | undefined;
  /** Set the visible items; requests for other items, except the fed one, are cancelled. */
  setVisibleItems(indices: readonly number[]): void;
  /** Each item's label, and the labels' names; empty if there are none. */
  readonly labels: readonly number[];
  readonly classes: readonly string[];
  /** The decoded picture in its original size; null if there is none. */
  readonly picture: ImageBitmap | null;
  /** The drawing pen; null if the source is not a drawing. */
  readonly pen: Pen | null;
  /** Step to the next picture or the previous one. */
  step(by: 1 | -1): void;
  /** The search for the next misclassified item; undefined if there are no labels to compare. */
  readonly search: MispredictionSearch | undefined;
}

/** A pen that draws strokes; coordinates are in input pixels. */
export interface Pen {
  /** The input's width and height. */
  readonly inputSize: readonly [number, number];
  readonly width: Signal<number>;
  readonly isEraser: Signal<boolean>;
  /** In the form #rrggbb; grey inputs use white only. */
  readonly color: Signal<string>;
  readonly strokeCount: ReadonlySignal<number>;
  begin(x: number, y: number, pressure: number): void;
  move(x: number, y: number, pressure: number): void;
  end(): void;
  undo(): void;
  clear(): void;
}

/** A search that runs until it is stopped or has found an item. */
export interface MispredictionSearch {
  readonly isRunning: ReadonlySignal<boolean>;
  /** The result as text; "" if there is none yet. */
  readonly text: ReadonlySignal<string>;
  start(): void;
  stop(): void;
}

export interface SourceState {
  readonly source: Signal<Source | null>;
  readonly sourceStatus: Signal<SourceStatus>;
  readonly sourceControls: Signal<SourceControls | null>;
  /** Null if the page cannot run the network. */
  readonly feeder: Signal<Feeder | null>;
  /** Data sets, videos and latents from Python, to return to from another source. */
  readonly pythonSources: Signal<readonly Source[]>;
}

declare module "../../state.ts" {
  interface ViewerState extends SourceState {}
}

export const sourceState = (): SourceState & Pick<InputState, "isInputLive"> => {
  const sourceStatus = signal(SOURCE_OFF);
  return {
    source: signal(null),
    sourceStatus,
    isInputLive: computed(() => sourceStatus.value.phase === "live"),
    sourceControls: signal(null),
    feeder: signal(null),
    pythonSources: signal([]),
  };
};
