// The interface of a runtime: a device, a session on it, and how to draw a value. docs/runtimes.md describes it.

import type { COLORMAPS } from "../messages.ts";
import type { EditPreview } from "./derived_values.ts";
import type { Edit } from "./edits.ts";
import type { Input, PlanHeader, Target, Texture, Value } from "./schema.ts";

export type Precision = PlanHeader["precision"];
export type Format = Texture["format"];

/**
 * Runs Plans on a graphics device. Everything above it (engine, clients, views) gets one from the entry of its bundle and
 * names no other. Its methods take devices that its own `openDevice` has opened.
 */
export interface Runtime {
  /** Throws DeviceUnavailable. */
  openDevice(): Device;
  /**
   * Compiles, allocates and uploads; nothing is run. `weight` returns the numbers of a content hash, and is called again
   * after a lost context. Throws PlanError, ShaderError, ContextLostError.
   */
  createSession(
    device: Device,
    plan: PlanHeader,
    uniforms: Uint8Array,
    weight: (hash: string) => Float32Array,
    onProgress?: (progress: Progress) => void,
  ): Promise<Session>;
  /**
   * Compiles a Plan's programs before its weights are there; calling the result releases them, once the session has
   * them. Throws PlanError for a damaged Plan, before it returns.
   */
  compileAhead(device: Device, plan: PlanHeader, uniforms: Uint8Array): Promise<() => void>;
  /** The numbers of an input that `feed` of a picture would give it, for each example of its batch. */
  resamplePicture(
    device: Device,
    input: Input,
    picture: ImageSource,
  ): Promise<Float32Array<ArrayBuffer>>;
}

/** What a device is and can do. */
export interface Capabilities {
  readonly renderer: string;
  readonly vendor: string;
  /** What a Plan for this device may use. */
  readonly target: Target;
  /** It has timer queries: in WebGL, EXT_disjoint_timer_query_webgl2. */
  readonly hasTimerQuery: boolean;
  /** It compiles in parallel: in WebGL, KHR_parallel_shader_compile. */
  readonly hasParallelCompile: boolean;
  /** Of what it can draw: float16 where it cannot draw 32-bit floats. */
  readonly precision: Precision;
  /** Drawn by the processor (SwiftShader, llvmpipe, WARP): right but slow. */
  readonly isSoftware: boolean;
}

/** Objects alive on a device, for leak tests. */
export interface LiveObjects {
  textures: number;
  programs: number;
  buffers: number;
  framebuffers: number;
}

/** The page's one graphics device. */
export interface Device {
  readonly capabilities: Capabilities;
  readonly liveObjects: Readonly<LiveObjects>;
  /** True from the loss of the context until it and all sessions are rebuilt. */
  readonly isLost: boolean;
  /** Calls back when the context is lost; returns what undoes it. */
  onLost(callback: () => void): () => void;
  /** Calls back once every session is rebuilt and has run again; returns what undoes it. */
  onRestored(callback: () => void): () => void;
  dispose(): void;
}

export interface Progress {
  readonly stage: "compile" | "upload" | "run";
  readonly done: number;
  readonly total: number;
}

/** One completed run. */
export interface RunInfo {
  readonly ms: number;
  /** "gpu timer" counts the GPU's time, "wall" waits for it, "fence" is seen late by up to one poll (4 to 17 ms). */
  readonly clock: "gpu timer" | "fence" | "wall";
  readonly passes: number;
  /** Whether some program drew for the first time: the driver finishes compiling it then, which takes longer than the run. */
  readonly hasBuiltPipelines: boolean;
  /** Whether nothing else was asked of the device from its beginning to its end. */
  readonly isExclusive: boolean;
  /** The session's `sequence` after this run. */
  readonly sequence: number;
  /** The names of what was run, in order. */
  readonly sections: readonly string[];
}

/** How long a layer's passes take by themselves; no `passes` where another layer's compute it too. */
export interface LayerTime extends Pick<RunInfo, "ms" | "clock" | "passes"> {
  readonly repeats: number;
}

/** From canvas to canvas within the browser, or read back to this thread and put as pixels. */
export type CanvasTransfer = "canvas" | "readback";

/** At once; within half a second, so that live pictures don't pulse; or not at all, where something was drawn before. */
export type RangeSmoothing = "exact" | "slow" | "held";

export interface RunOptions {
  /** This section alone, with those that it follows from where their values are old; by default all. */
  readonly section?: string;
  /** Somebody waits for the result (Python): poll by timers, never by animation frames. */
  readonly urgent?: boolean;
  /** Told after each slice of a run that is cut into several. */
  readonly onProgress?: (progress: Progress) => void;
}

/** Where texels lie beside each other: x, y, width, and height where that is not 1. */
export type Band = readonly [x: number, y: number, width: number, height?: number];

/** Other numbers in a rectangle of a weight texture: `data` has four for each texel, in rows. */
export interface Patch {
  readonly texture: number;
  readonly layer: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly data: Float32Array;
}

/** Whatever the browser can put into a texture. */
export type ImageSource =
  | HTMLCanvasElement
  | HTMLImageElement
  | HTMLVideoElement
  | ImageBitmap
  | ImageData
  | OffscreenCanvas
  | VideoFrame;

/** A Plan on the device: its programs, textures and weights. */
export interface Session {
  readonly plan: PlanHeader;
  /** Bytes of textures and buffers on the device. */
  readonly bytes: number;
  /** Counts runs; values change only when it does. 0: no run yet. */
  readonly sequence: number;
  /** The data of one input, copied; the next run uses it. Throws when `key` or the length is wrong. */
  write(key: string, data: Float32Array): void;
  /**
   * A picture as an input, resampled as the Plan says of it; the next run uses it, and takes it then: a video's frame
   * of that time. Throws PlanError where the input takes no pictures. Every example of a batch gets it. A picture without
   * a size (a video that has no frame yet, a bitmap that was closed) leaves the input as it is; one of another origin
   * fails the run, and is not tried again. After a lost context it is taken anew where it is still there.
   */
  feed(key: string, picture: ImageSource, mirrored: boolean): void;
  /**
   * The packed rows of a weight texture; nothing is compiled. The next run uses it. With their `hash`, sessions that
   * hold the same share the texture.
   */
  setWeight(texture: number, data: Float32Array, hash?: string): void;
  /** A few other numbers on top of what `setWeight` or the Plan says of a texture, until `setWeight` of it. */
  patchWeight(patch: Patch): void;
  /** Runs on the current inputs. Calls during a run share it, or the next one after a write or a commit. */
  run(options?: RunOptions): Promise<RunInfo>;
  /**
   * The edits that the next run has, and all after it. Resolves when their programs and textures are there; of several
   * calls the last one counts. Throws ShaderError where a text of one's own doesn't compile, PlanError where an edit is
   * none of this Plan's or there is no room: the edits before stay. `array` gives injected arrays by their hash. Other
   * parameters, channels and shares are only told to the device, in the very next run.
   */
  setEdits(edits: readonly Edit[], array: (hash: string) => Float32Array): Promise<void>;
  /** A value by its key, or one that follows from it (derived_values.ts); undefined where there is none. */
  value(key: string): Value | undefined;
  /**
   * Keeps these values as they are without any edit, and the differences, from now on: `uneditedKey`, `differenceKey`.
   * Where something is edited the network runs twice for that, once for all edits of the same inputs and weights.
   */
  keepUnedited(keys: readonly string[]): Promise<void>;
  /**
   * Keeps what these values are after each of their edits, from now on: `stageKey`. It costs no pass, but a texture for
   * each edit. The last call counts.
   */
  keepStages(keys: readonly string[]): Promise<void>;
  /** One channel's map as each of these edits would make it behind all that are there, now and after each run: their keys. */
  previewEdits(asked: EditPreview | null): Promise<readonly string[]>;
  /**
   * What the last runs computed is the state that the next run begins with: the source of each carry whose section has
   * run since the last commit. Without a commit any number of runs gives the same. The weight of a carry's target has
   * what the state is at first, after `setWeight` of it, and after a lost context, which takes all that was committed.
   */
  commit(): void;
  /**
   * What was committed, as `setWeight` takes it of each carry's target: a state to go back to. Of one moment, whatever
   * runs meanwhile.
   */
  committedState(): Promise<ReadonlyMap<number, Float32Array>>;
  /**
   * Waits until the device has nothing to do and runs a few times more, only to measure: values and `sequence` stay.
   * The shortest run; undefined where something new is to be run or is running, where a run is expected to take more
   * than `most` ms, and where something else was always asked of the device meanwhile.
   */
  measureRun(most: number): Promise<RunInfo | undefined>;
  /** A value's or parameter's elements in row-major order; runs first when inputs or weights have changed. */
  read(key: string): Promise<Float32Array>;
  /** Stretches of the texels that reading a value draws, one after the other. */
  sample(key: string, bands: readonly Band[]): Promise<Float32Array<ArrayBuffer>>;
  /** Draws values of the last run into 2-D canvases, in one batch; what is read back, if anything, is their pixels. */
  draw(jobs: readonly DrawJob[]): void;
  /** Begins what `draw` would hold the page for; resolves when it no longer will, undefined where it doesn't anyway. */
  prepareDraw(jobs: readonly DrawJob[]): Promise<void> | undefined;
  /** Numbers of one image of a value, reduced on the GPU. */
  statistics(key: string, image?: number): Promise<Statistics>;
  /**
   * The `count` largest scores of one image of a vector, picked out on the GPU. Undefined where all are to be brought:
   * there are no more, or too many, the device draws 16-bit floats alone, or that code is not here yet.
   */
  topk(key: string, count: number, image: number): Promise<TopK | undefined>;
  /**
   * The channel with the largest value at each place of one image, the first of equal ones, -1 where one is NaN: found
   * on the GPU. Undefined as for `topk`.
   */
  argmax(key: string, image: number): Promise<Float32Array | undefined>;
  /** How one image's values are spread over so many bins, of one channel or of all; counted on the GPU. */
  histogram(key: string, bins: number, image?: number, channel?: number): Promise<Histogram | null>;
  /** How many numbers of one image lie below and above a range; counted on the GPU. */
  countClipped(
    key: string,
    range: { low: number; high: number },
    image?: number,
  ): Promise<ClippedCounts>;
  /** How the colours' ranges of layers and channels follow the values, from the next `draw` on; at first "exact". */
  rangeSmoothing: RangeSmoothing;
  /** The least and the greatest value that a value's colours were last drawn for, of one channel or of all. */
  colorLimits(key: string, channel?: number): Promise<readonly [low: number, high: number]>;
  /** Which way pictures take from the device to their canvases. */
  canvasTransfer: CanvasTransfer;
  /**
   * Runs the network until it is warm, then each layer by itself, which is told as it is known; -1
   * stands for passes of no layer. Other runs and reads come in between two layers. The last run.
   */
  profile(onLayer: (layer: number, time: LayerTime) => void, signal: AbortSignal): Promise<RunInfo>;
  dispose(): void;
}

export type ColorMapName = (typeof COLORMAPS)[number];
export type Theme = "light" | "dark";

/** Which values are the limits of the colour map. */
export interface ColorRange {
  /** channel: each map its own; layer: shared by the image's maps; fixed: `low` to `high`. */
  readonly mode: "channel" | "layer" | "fixed";
  /** ± the larger end, instead of minimum to maximum. The signed map always is. */
  readonly symmetric?: boolean;
  readonly low?: number;
  readonly high?: number;
}

/** One picture: channels of one image of a value as a mosaic in a 2-D canvas, which gets its size from it. */
export interface DrawJob {
  readonly key: string;
  readonly canvas: HTMLCanvasElement;
  readonly image: number;
  /** In the order in which they are shown; of the value's `nchw` (n, c, h, w). */
  readonly channels: readonly number[];
  readonly columns: number;
  /** Transparent canvas pixels between maps. */
  readonly gap: number;
  /** Canvas pixels per map pixel: a whole number, 1 when CSS enlarges, or below 1 for large maps (averaged). */
  readonly scale: number;
  readonly colormap: ColorMapName;
  readonly theme: Theme;
  readonly range: ColorRange;
  /**
   * maps: each channel through the colour map; grey: each as a grey picture; rgb: three channels, one picture;
   * curves: each along its one axis; classes: the channel with the largest value, in the class's colour, one picture.
   */
  readonly drawMode: "maps" | "grey" | "rgb" | "curves" | "classes";
  /** Canvas pixels of each curve. */
  readonly cell?: readonly [width: number, height: number] | undefined;
}

/** Over finite values, except the three counts. Empty (no finite value): NaN. */
export interface Summary {
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly std: number;
  /** Fraction of all elements that are exactly 0. */
  readonly zeros: number;
  readonly nan: number;
  readonly inf: number;
}

export interface Statistics {
  /** Of the run it was computed from. */
  readonly sequence: number;
  readonly image: number;
  readonly layer: Summary;
  readonly channels: readonly Summary[];
}

/** Scores from the largest on, and which ones they are; NaN counts as the largest, of equal ones the first is. */
export interface TopK {
  readonly scores: readonly number[];
  readonly indices: readonly number[];
}

/** How many numbers of an image its range clips: see clipping.ts. */
export interface ClippedCounts {
  readonly below: number;
  readonly above: number;
}

/** Finite values in bins of one width from the least to the greatest; the last one has its end too. */
export interface Histogram {
  readonly low: number;
  readonly high: number;
  /** Values that are exactly zero, and not in `counts`: a ReLU makes so many. */
  readonly zeros: number;
  readonly counts: readonly number[];
}

/** This browser cannot run a Plan. */
export class DeviceUnavailable extends Error {
  override readonly name = "DeviceUnavailable";
  readonly reason: "no-webgl2" | "no-float-textures" | "lost-at-birth";
  readonly detail: string;
  constructor(reason: DeviceUnavailable["reason"], message: string, detail: string) {
    super(message);
    this.reason = reason;
    this.detail = detail;
  }
}

/** The browser took the graphics context away; whatever was under way has no result. */
export class ContextLostError extends Error {
  override readonly name = "ContextLostError";

  constructor(message = "the graphics context was lost") {
    super(message);
  }
}

/** A Plan that is damaged, or too large for this device. */
export class PlanError extends Error {
  override readonly name = "PlanError";
}

/** A shader that this browser's compiler refuses; the message holds the numbered lines. */
export class ShaderError extends Error {
  override readonly name = "ShaderError";
}

/** The session was disposed while somebody waited for it. */
export class SessionClosed extends Error {
  override readonly name = "SessionClosed";
}
