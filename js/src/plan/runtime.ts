// The interface of a runtime: a device, a session on it, and drawing of values. docs/runtimes.md describes it.

import type { COLORMAPS } from "../messages.ts";
import type { EditPreview } from "./derived_values.ts";
import type { Edit } from "./edits.ts";
import type { Input, PlanHeader, Target, Texture, Value } from "./schema.ts";

export type Precision = PlanHeader["precision"];
export type TextureFormat = Texture["format"];

/**
 * Runs Plans on a graphics device. The layers above it (engine, clients, views) receive a runtime from the entry point
 * of their bundle and never import one. Its methods accept only devices opened by its own `openDevice`.
 */
export interface Runtime {
  /** Throws DeviceUnavailable. */
  openDevice(): Device;
  /**
   * Compile, allocate and upload, without running. `getWeight` returns the values for a content hash; it is called
   * again after a context loss. Throws PlanError, ShaderError, ContextLostError.
   */
  createSession(
    device: Device,
    plan: PlanHeader,
    uniforms: Uint8Array,
    getWeight: (hash: string) => Float32Array,
    onProgress?: (progress: Progress) => void,
  ): Promise<Session>;
  /**
   * Compile a Plan's programs before its weights have arrived. Call the returned function to release them once the
   * session holds them. Throws PlanError for a damaged Plan, before it returns.
   */
  compileAhead(device: Device, plan: PlanHeader, uniforms: Uint8Array): Promise<() => void>;
  /** The values that `feed` would give an input for this picture, for each example of its batch. */
  resamplePicture(
    device: Device,
    input: Input,
    picture: ImageSource,
  ): Promise<Float32Array<ArrayBuffer>>;
}

/** A device's properties and capabilities. */
export interface Capabilities {
  readonly renderer: string;
  readonly vendor: string;
  /** The limits for Plans on this device. */
  readonly target: Target;
  /** Whether it has timer queries: in WebGL, EXT_disjoint_timer_query_webgl2. */
  readonly hasTimerQuery: boolean;
  /** Whether it compiles in parallel: in WebGL, KHR_parallel_shader_compile. */
  readonly hasParallelCompile: boolean;
  /** Precision of render targets: float16 if the device cannot render 32-bit floats. */
  readonly precision: Precision;
  /** Whether a CPU renderer draws (SwiftShader, llvmpipe, WARP): correct but slow. */
  readonly isSoftware: boolean;
}

/** Objects alive on a device, for leak tests. */
export interface LiveObjectCounts {
  textures: number;
  programs: number;
  buffers: number;
  framebuffers: number;
}

/** The page's one graphics device. */
export interface Device {
  readonly capabilities: Capabilities;
  readonly liveObjects: Readonly<LiveObjectCounts>;
  /** True from the loss of the context until it and all sessions are rebuilt. */
  readonly isLost: boolean;
  /** Register a callback for context loss; return a function that unregisters it. */
  onLost(callback: () => void): () => void;
  /** Register a callback for when every session is rebuilt and has run again; return a function that unregisters it. */
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
  /**
   * "gpu timer" measures GPU time, "wall" blocks until it is done, "fence" is noticed up to one poll late (4 to 17 ms).
   */
  readonly clock: "gpu timer" | "fence" | "wall";
  readonly passes: number;
  /**
   * Whether a program drew for the first time: the driver then finishes its compilation, which takes longer than the
   * run.
   */
  readonly hasBuiltPipelines: boolean;
  /** Whether the device had no other work between the run's start and end. */
  readonly isExclusive: boolean;
  /** The session's `sequence` after this run. */
  readonly sequence: number;
  /** The names of the sections that ran, in order. */
  readonly sections: readonly string[];
}

/** The time of a layer's passes measured alone; `passes` is 0 if another layer's passes compute it. */
export interface LayerTime extends Pick<RunInfo, "ms" | "clock" | "passes"> {
  readonly repeats: number;
}

/**
 * How a picture reaches its canvas: canvas to canvas within the browser, or read back to this thread and written as
 * pixels.
 */
export type CanvasTransfer = "canvas" | "readback";

/**
 * How colour ranges follow the values: at once; within half a second, so that live pictures don't flicker; or not at
 * all after the first draw.
 */
export type RangeSmoothing = "exact" | "slow" | "held";

export interface RunOptions {
  /** Run only this section, and the sections it depends on if their values are stale; by default all. */
  readonly section?: string;
  /** A caller is blocked (Python): poll with timers, never with animation frames. */
  readonly urgent?: boolean;
  /** Called after each slice of a run that is split into several. */
  readonly onProgress?: (progress: Progress) => void;
}

/** A block of adjacent texels: x, y, width, and height if it is not 1. */
export type TexelSpan = readonly [x: number, y: number, width: number, height?: number];

/** New values for a rectangle of a weight texture: `data` has four per texel, row by row. */
export interface Patch {
  readonly texture: number;
  readonly layer: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly data: Float32Array;
}

/** Any object that the browser can upload to a texture. */
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
  /** Number of runs; values change only when it does. 0: no run yet. */
  readonly sequence: number;
  /** Set the data of one input; it is copied, and the next run uses it. Throws if `key` or the length is wrong. */
  write(key: string, data: Float32Array): void;
  /**
   * Set an input from a picture, resampled as the Plan specifies, for every example of a batch. The next run captures
   * it: for a video, the frame at that time. Throws PlanError if the input takes no pictures. A picture without a size
   * (a video without a frame yet, a closed bitmap) leaves the input unchanged. A cross-origin picture fails the run and
   * is not retried. After a context loss the picture is captured again if it is still available.
   */
  feed(key: string, picture: ImageSource, mirrored: boolean): void;
  /**
   * Set the packed rows of a weight texture, without compilation; the next run uses them. With their `hash`, sessions
   * that hold the same rows share the texture.
   */
  setWeight(texture: number, data: Float32Array, hash?: string): void;
  /** Change a few values on top of those from `setWeight` or the Plan, until the next `setWeight` of the texture. */
  patchWeight(patch: Patch): void;
  /** Run on the current inputs. Calls during a run share that run, or the next one if there was a write or a commit. */
  run(options?: RunOptions): Promise<RunInfo>;
  /**
   * Set the edits for all following runs. Resolves when their programs and textures are ready; of several calls, the
   * last one wins. Throws ShaderError if the user's own GLSL doesn't compile, and PlanError if an edit is invalid for
   * this Plan or there is no room; the previous edits then stay. `getArray` returns injected arrays by their hash.
   * Changes of parameters, channels and mix alone only update data on the device, for the very next run.
   */
  setEdits(edits: readonly Edit[], getArray: (hash: string) => Float32Array): Promise<void>;
  /** A value by its key, or a value derived from one (derived_values.ts); undefined if there is none. */
  value(key: string): Value | undefined;
  /**
   * Keep the unedited version of these values, and the differences, from now on: `uneditedKey`, `differenceKey`. With
   * edits, the network then runs twice, but the unedited run is done once for all edits of the same inputs and weights.
   */
  keepUnedited(keys: readonly string[]): Promise<void>;
  /**
   * Keep these values after each of their edits, from now on: `intermediateKey`. This needs no extra pass, but a
   * texture for each edit. The last call wins.
   */
  keepIntermediates(keys: readonly string[]): Promise<void>;
  /**
   * Preview each of these edits on one channel's map, as if it followed the existing edits, now and after each run.
   * Resolve with the previews' keys.
   */
  previewEdits(preview: EditPreview | null): Promise<readonly string[]>;
  /**
   * Make the results of the last runs the state that the next run starts from: the source of each carry whose section
   * has run since the last commit. Without a commit, repeated runs give the same results. The weight of a carry's
   * target holds the initial state, which applies after its `setWeight` and after a context loss; the loss discards all
   * committed state.
   */
  commit(): void;
  /**
   * Read the committed state of each carry's target, in the format of `setWeight`: a snapshot to restore. It is
   * consistent even if runs happen meanwhile.
   */
  committedState(): Promise<ReadonlyMap<number, Float32Array>>;
  /**
   * Wait until the device is idle and repeat the run a few times, only to measure: values and `sequence` don't change.
   * Resolves with the shortest run; undefined if there is something new to run or a run in progress, if a run is
   * expected to take more than `maxMs` ms, or if the device always had other work meanwhile.
   */
  measureRun(maxMs: number): Promise<RunInfo | undefined>;
  /** Read the elements of a value or parameter in row-major order. Runs first if inputs or weights have changed. */
  read(key: string): Promise<Float32Array>;
  /** Read bands of the texels that reading a value draws, concatenated. */
  sample(key: string, spans: readonly TexelSpan[]): Promise<Float32Array<ArrayBuffer>>;
  /** Draw values of the last run into 2-D canvases, in one batch. If anything is read back, it is the pixels. */
  draw(jobs: readonly DrawJob[]): void;
  /**
   * Start the work that `draw` would block on. Resolves once `draw` won't block; undefined if it wouldn't block anyway.
   */
  prepareDraw(jobs: readonly DrawJob[]): Promise<void> | undefined;
  /** Statistics of one image of a value, reduced on the GPU. */
  statistics(key: string, image?: number): Promise<Statistics>;
  /**
   * The `count` largest scores of one image of a vector, selected on the GPU. Undefined if all scores should be read
   * instead: there are no more than `count`, or too many, the device renders only 16-bit floats, or the code has not
   * loaded.
   */
  topk(key: string, count: number, image: number): Promise<TopK | undefined>;
  /**
   * The channel with the largest value at each position of one image; the first of equal ones, and -1 if one is NaN.
   * Computed on the GPU. Undefined as for `topk`.
   */
  argmax(key: string, image: number): Promise<Float32Array | undefined>;
  /** A histogram of one image's values with this many bins, for one channel or all; counted on the GPU. */
  histogram(key: string, bins: number, image?: number, channel?: number): Promise<Histogram | null>;
  /** The number of values of one image below and above a range; counted on the GPU. */
  countClipped(
    key: string,
    range: { low: number; high: number },
    image?: number,
  ): Promise<ClippedCounts>;
  /** How the colour ranges of layers and channels follow the values, from the next `draw` on; initially "exact". */
  rangeSmoothing: RangeSmoothing;
  /** The smallest and largest value of the colour range last drawn for a value, for one channel or for all. */
  colorLimits(key: string, channel?: number): Promise<readonly [low: number, high: number]>;
  /** How pictures reach their canvases. */
  canvasTransfer: CanvasTransfer;
  /**
   * Run the network until it is warm, then time each layer by itself. `onLayer` is called for each layer as soon as it
   * is measured, with -1 for passes without a layer. Other runs and reads may happen between two layers. Resolves with
   * the last run.
   */
  profile(onLayer: (layer: number, time: LayerTime) => void, signal: AbortSignal): Promise<RunInfo>;
  dispose(): void;
}

export type ColorMapName = (typeof COLORMAPS)[number];
export type Theme = "light" | "dark";

/** The values at the ends of the colour map. */
export interface ColorRange {
  /** channel: each map has its own; layer: the maps of the image share one; fixed: `low` to `high`. */
  readonly mode: "channel" | "layer" | "fixed";
  /** ± the end with the larger magnitude, instead of minimum to maximum. Always for the signed map. */
  readonly symmetric?: boolean;
  readonly low?: number;
  readonly high?: number;
}

/** One picture: channels of one image of a value as a mosaic in a 2-D canvas. The mosaic sets the canvas's size. */
export interface DrawJob {
  readonly key: string;
  readonly canvas: HTMLCanvasElement;
  readonly image: number;
  /** Channel numbers (c of the value's `nchw`: n, c, h, w), in display order. */
  readonly channels: readonly number[];
  readonly columns: number;
  /** Transparent canvas pixels between maps. */
  readonly gap: number;
  /** Canvas pixels per map pixel: an integer (1 if CSS enlarges it), or below 1 for large maps (averaged). */
  readonly scale: number;
  readonly colormap: ColorMapName;
  readonly theme: Theme;
  readonly range: ColorRange;
  /**
   * maps: each channel through the colour map; grey: each as a grey picture; rgb: three channels as one picture;
   * curves: each along its single axis; classes: one picture, with the colour of the channel that has the largest
   * value.
   */
  readonly drawMode: "maps" | "grey" | "rgb" | "curves" | "classes";
  /** Canvas pixels of each curve. */
  readonly curveSize?: readonly [width: number, height: number] | undefined;
}

/** Statistics over finite values, except `zeroFraction`, `nan` and `inf`. NaN if there are no finite values. */
export interface Summary {
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly std: number;
  /** Fraction of all elements that are exactly 0. */
  readonly zeroFraction: number;
  readonly nan: number;
  readonly inf: number;
}

export interface Statistics {
  /** The `sequence` of the run it was computed from. */
  readonly sequence: number;
  readonly image: number;
  readonly layer: Summary;
  readonly channels: readonly Summary[];
}

/**
 * The largest scores in descending order, and their indices. NaN counts as the largest; of equal scores the first one
 * comes first.
 */
export interface TopK {
  readonly scores: readonly number[];
  readonly indices: readonly number[];
}

/** The number of an image's values that its range clips: see clipping.ts. */
export interface ClippedCounts {
  readonly below: number;
  readonly above: number;
}

/** Finite values in equal-width bins from the smallest to the largest; the last bin includes its upper end. */
export interface Histogram {
  readonly low: number;
  readonly high: number;
  /** Number of exact zeros, which are not in `counts`, because a ReLU makes so many. */
  readonly zeros: number;
  readonly counts: readonly number[];
}

/** The browser cannot run Plans. */
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

/** The browser lost the graphics context; work in flight has no result. */
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

/** A shader that this browser's compiler rejects; the message includes the numbered lines. */
export class ShaderError extends Error {
  override readonly name = "ShaderError";
}

/** The session was disposed while a call was waiting for it. */
export class SessionClosed extends Error {
  override readonly name = "SessionClosed";
}
