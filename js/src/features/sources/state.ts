// Where the input comes from, and how that goes on in this page.
import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { InputOverride } from "../../engine/types.ts";
import type { InputState } from "../../state/input.ts";
import type { Source } from "./records.ts";

/** Why there is no camera, or no other source. */
export type SourceFailure =
  | "none" // there is no camera
  | "denied"
  | "insecure" // neither https nor localhost
  | "taken" // by another program
  | "framed" // in an iframe that may not
  | "damaged" // a file that cannot be decoded
  | "lost"; // it ended by itself: unplugged, the tab was suspended

export interface SourceStatus {
  /**
   * "off": nothing is fed; "waiting": for a click, a file or data from Python; "asking": the browser asks for the
   * permission; "live": pictures follow each other; "still": the last one stays; "elsewhere": another page has them.
   */
  readonly phase: "off" | "waiting" | "asking" | "live" | "still" | "elsewhere" | "failed";
  readonly failure: SourceFailure | null;
  /** What was found, for "Details"; "" for nothing. */
  readonly detail: string;
  /** Pictures within the last second. */
  readonly rate: number;
}

export const SOURCE_OFF: SourceStatus = { phase: "off", failure: null, detail: "", rate: 0 };

/** What a client has for sources: a way to the engine, to Python, and to blobs. */
export interface Feeder {
  /** This page's name, as a source's owner. */
  readonly page: string;
  feed(fed: InputOverride | null): Promise<void>;
  /** The input of now, before it is edited. */
  read(key: string): Promise<Float32Array>;
  /** A blob that Python has, or the exported page; rejects where it does not come. */
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Lets go of it. */
  release(name: string): void;
  /** Another picture went in; `still`: no other follows by itself. */
  reportFed(still: boolean, rate: number): void;
}

/** What the drawer does with the source of now; the sources' code gives them. */
export interface SourceControls {
  /** After a click, where the browser asks for a permission. */
  start(): void;
  /** A file that was chosen, dropped or pasted. */
  openFile(file: Blob, title: string): void;
  /** The stream or the film; null where there is none. */
  readonly video: HTMLVideoElement | null;
  /** What people see of it. */
  readonly preview: HTMLVideoElement | HTMLCanvasElement | null;
  /** What is drawn on, of the input's size times a whole number; null where nothing is. */
  readonly canvas: HTMLCanvasElement | null;
  /** The drawing was changed. */
  onDrawingChanged(): void;
  /** Item `index` of a data set as RGBA of the input's size; undefined while it is on its way. */
  itemImage(index: number): ImageData | undefined;
  /** These items are looked at, and the one that is fed; what is on its way of others is not wanted any more. */
  setVisibleItems(indices: readonly number[]): void;
  /** Each item's label, and the labels' names; empty where there are none. */
  readonly labels: readonly number[];
  readonly classes: readonly string[];
  /** The picture as it was given; null where there is none. */
  readonly picture: ImageBitmap | null;
  /** What draws; null where nothing is drawn. */
  readonly pen: Pen | null;
  /** The next picture, or the one before. */
  step(by: 1 | -1): void;
  /** Looks for the next item whose label is not what the network says; undefined: there are no labels to compare. */
  readonly search: MispredictionSearch | undefined;
}

/** Draws strokes; places are in pixels of the input. */
export interface Pen {
  /** The input's width and height. */
  readonly inputSize: readonly [number, number];
  readonly width: Signal<number>;
  readonly isEraser: Signal<boolean>;
  /** As #rrggbb; grey inputs take white alone. */
  readonly color: Signal<string>;
  readonly strokes: ReadonlySignal<number>;
  begin(x: number, y: number, pressure: number): void;
  move(x: number, y: number, pressure: number): void;
  end(): void;
  undo(): void;
  clear(): void;
}

/** A search that goes on until it is stopped, or has found one. */
export interface MispredictionSearch {
  readonly isRunning: ReadonlySignal<boolean>;
  /** What came of it, in words; "" for nothing yet. */
  readonly text: ReadonlySignal<string>;
  start(): void;
  stop(): void;
}

export interface SourceState {
  readonly source: Signal<Source | null>;
  readonly sourceStatus: Signal<SourceStatus>;
  readonly sourceControls: Signal<SourceControls | null>;
  /** null where the page cannot feed anything: it cannot draw. */
  readonly feeder: Signal<Feeder | null>;
  /** Data sets, films and latents that came from Python, to go back to them from another source. */
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
