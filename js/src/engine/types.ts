// The engine's interface: content, events and methods.
import type { Edit } from "../plan/edits.ts";
import type {
  Device,
  DeviceUnavailable,
  ImageSource,
  Patch,
  Progress,
  RunInfo,
  Session,
} from "../plan/runtime.ts";
import type { Input } from "../plan/schema.ts";
import type { EngineSignals } from "./signals.ts";
import type { EqualExamples } from "./value_samples.ts";

/** The network to run, by content hash; the page's store holds all blobs. */
export interface NetworkContent {
  readonly planHash: string;
  /** Weights in the Plan's order, then inputs in the Plan's order. */
  readonly weightHashes: readonly string[];
  readonly inputHashes: readonly string[];
  /** Applied on top of the weights, in this order. */
  readonly patches?: readonly Patch[];
  /** Replacements for textures of `weightHashes`, by texture index. */
  readonly weightOverrides?: WeightDataByTexture | undefined;
}

/** Whole weight textures, as `setWeight` takes them. */
export type WeightDataByTexture = ReadonlyMap<number, Float32Array>;

/** A source's replacement for one of the content's inputs: its values, or a picture to convert. */
export interface InputOverride {
  /** The input's key. */
  readonly key: string;
  readonly data?: Float32Array;
  readonly picture?: ImageSource;
  /** Whether the picture is flipped horizontally. */
  readonly mirrored?: boolean;
}

/** The engine's callbacks to its client, besides its signals. */
export interface EngineEvents {
  onProgress(progress: Progress): void;
  onContextLost(): void;
  /** The context was restored, and the content is being shown again. */
  onContextRestored(): void;
  /** The last run was timed again while idle. */
  onRunTimed(run: RunInfo): void;
  /** Runs started or stopped; `runsPerSecond` is the number of runs in the last second. */
  onRunRate(running: boolean, runsPerSecond: number): void;
  /** These edits don't apply to the shown Plan and are skipped; called when the list changes. */
  onSkippedEdits?(skippedEdits: readonly Edit[]): void;
  /** Whether the client is busy, which makes a measured time unreliable. */
  isBusy(): boolean;
}

/** Options of `show`. */
export interface ShowOptions {
  /** A caller is blocked: don't wait for requestAnimationFrame. */
  readonly urgent?: boolean;
  /** Run again even if the content has already run. */
  readonly rerun?: boolean;
  /** Run only this section of the Plan, even if it has run. */
  readonly section?: string;
}

/** Runs one network at a time on the page's device. Unless noted otherwise, methods throw if nothing is shown. */
export interface Engine {
  readonly signals: EngineSignals;
  /** Undefined if this browser cannot run a Plan: see `deviceError`. */
  readonly device: Device | undefined;
  readonly deviceError: DeviceUnavailable | undefined;
  /** Number of finished runs, over all Plans. */
  readonly runCount: number;
  /** Number of context losses. */
  readonly contextLosses: number;
  /** The content of the current values; undefined before the first run and while other content is loading. */
  readonly currentContent: NetworkContent | undefined;
  /** The loaded content, also during another run or while the context is lost; undefined if nothing is loaded. */
  readonly loadedContent: NetworkContent | undefined;
  /** Bytes of textures and buffers on the device. */
  readonly bytes: number;
  /** Number of mounted views. */
  readonly viewCount: number;
  /** The key of the input that a source overrides; "" if the content's input is used. */
  readonly overriddenInputKey: string;
  /** Two shown examples with equal inputs; undefined if there are none or a source overrides an input. */
  readonly equalExamples: EqualExamples | undefined;
  /** Mount a view. Returns the callback that unmounts it. */
  addView(): () => void;
  /**
   * Load and run `content`, unless its values are current. Calls run one at a time; pending calls coalesce and the last
   * one wins. While the context is lost, the call is deferred until it is restored. Throws the session's errors.
   */
  show(content: NetworkContent, options?: ShowOptions): Promise<void>;
  /**
   * Apply edits to any shown network, and rerun at once. Calls during a run coalesce; the last one wins. Edits persist
   * across Plans, lost contexts and `unloadContent`. Throws if they cannot be applied; the previous edits then stay.
   * Arrays are read from the page's store and retained there.
   */
  setEdits(edits: readonly Edit[]): Promise<void>;
  /**
   * Override an input and run; null restores the content's input. Calls during a run coalesce; the last one wins, so a
   * source with more pictures awaits the promise. The override persists for another Plan whose input it fits. A picture
   * is read when the run begins.
   */
  overrideInput(override: InputOverride | null): Promise<void>;
  /** Make the last run's state the initial state of the next run: see Session. A lost context discards the state. */
  commit(): void;
  /** Call `work` with the current session; nothing else of this engine changes or runs it meanwhile. */
  withSession<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** The rows with each state's initial value, by texture; for a Plan without states, all weights. */
  initialWeightData(): WeightDataByTexture;
  /** Run the current content again after a change of its state; views update. */
  rerun(): Promise<void>;
  /** A caller is blocked on a value: finish the run in flight, if any, without waiting for animation frames. */
  expediteRun(): void;
  /** Read the elements of a value or parameter of the current content. */
  read(key: string): Promise<Float32Array<ArrayBuffer>>;
  /** Convert a picture to the values of an input; throws `deviceError` without a device. */
  resamplePicture(input: Input, picture: ImageSource): Promise<Float32Array<ArrayBuffer>>;
  /**
   * Create another session of the current content, with its weights and inputs but without edits. The caller disposes
   * it.
   */
  forkSession(): Promise<Session>;
  /** Report that all requested work is done: the last run is timed again when the page is idle. */
  scheduleRunTiming(): void;
  /** Publish the Plan in `signals.plan` without running it. */
  publishPlan(planHash: string): void;
  /**
   * Publish the Plan in `signals.plan` and compile its programs before its weights arrive. Errors are reported by
   * `show`.
   */
  compileAhead(planHash: string): void;
  /** Resolve when `compileAhead` has finished or failed. */
  whenCompiled(): Promise<void>;
  /** Free all device resources; the next `show` recreates them. */
  unloadContent(): void;
  dispose(): void;
}
