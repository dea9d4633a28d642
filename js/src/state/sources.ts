// Where the input comes from, and how that goes on in this page.
import { type Signal, signal } from "@preact/signals";
import type { Fed } from "../engine/engine.ts";
import type { Source } from "../source.ts";

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

export const OFF: SourceStatus = { phase: "off", failure: null, detail: "", rate: 0 };

/** What a client has for sources: a way to the engine, to Python, and to blobs. */
export interface Feeder {
  /** This page's name, as a source's owner. */
  readonly page: string;
  feed(fed: Fed | null): Promise<void>;
  /** The input of now, before it is edited. */
  read(key: string): Promise<Float32Array>;
  /** A blob that Python has, or the exported page; rejects where it does not come. */
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Lets go of it. */
  drop(name: string): void;
  /** Another picture went in; `still`: no other follows by itself. */
  tell(still: boolean, rate: number): void;
}

/** What the drawer does with the source of now; the sources' code gives them. */
export interface SourceControls {
  /** After a click, where the browser asks for a permission. */
  start(): void;
  /** A file that was chosen, dropped or pasted. */
  take(file: Blob, title: string): void;
  /** The stream or the film, to show it as it is; null where there is none. */
  readonly video: HTMLVideoElement | null;
  /** What is drawn on, of the input's size times a whole number; null where nothing is. */
  readonly canvas: HTMLCanvasElement | null;
  /** The drawing was changed. */
  drawn(): void;
  /** Item `index` of a data set as RGBA of the input's size; undefined while it is on its way. */
  item(index: number): ImageData | undefined;
  /** Each item's label, and the labels' names; empty where there are none. */
  readonly labels: readonly number[];
  readonly classes: readonly string[];
}

export interface SourceState {
  readonly source: Signal<Source | null>;
  readonly sourceStatus: Signal<SourceStatus>;
  readonly controls: Signal<SourceControls | null>;
  /** null where the page cannot feed anything: it cannot draw. */
  readonly feeder: Signal<Feeder | null>;
  /** The drawer is open. */
  readonly drawer: Signal<boolean>;
}

export const sourceState = (): SourceState => ({
  source: signal(null),
  sourceStatus: signal(OFF),
  controls: signal(null),
  feeder: signal(null),
  drawer: signal(false),
});
