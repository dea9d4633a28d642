// What an engine is to its client: what goes in, what it tells, what it can be asked.
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

/** What to run, by content hash; the page's store has all of it. */
export interface NetworkContent {
  readonly plan: string;
  /** In the order of the Plan's weights, and of its inputs. */
  readonly weights: readonly string[];
  readonly inputs: readonly string[];
  /** On top of the weights, in their order. */
  readonly patches?: readonly Patch[];
  /** In the place of what `weights` name, by texture. */
  readonly weightOverrides?: WeightTextures | undefined;
}

/** Whole weight textures, as `setWeight` takes them. */
export type WeightTextures = ReadonlyMap<number, Float32Array>;

/** What a source gives an input, in the place of the Content's: its numbers, or a picture that becomes them. */
export interface InputOverride {
  /** The input's key. */
  readonly key: string;
  readonly data?: Float32Array;
  readonly picture?: ImageSource;
  /** The picture's left and right are exchanged. */
  readonly mirrored?: boolean;
}

/** What the engine tells its client, besides its signals. */
export interface EngineEvents {
  onProgress(progress: Progress): void;
  onLost(): void;
  /** The context is there again, and what was shown is being shown anew. */
  onRestored(): void;
  /** The last run was measured again, at rest. */
  onTimed(run: RunInfo): void;
  /** Runs begin or have ended, and how many ended within the last second. */
  onRunRate(running: boolean, runsPerSecond: number): void;
  /** These edits are none of what is shown, and left out; told when they are others than before. */
  onSkippedEdits?(left: readonly Edit[]): void;
  /** Whether the client is still at work, so that a time measured now says little. */
  isBusy(): boolean;
}

/** How something is shown. */
export interface ShowOptions {
  /** Somebody waits for a value, and the run for no animation frame. */
  readonly urgent?: boolean;
  /** Also what has run is run. */
  readonly rerun?: boolean;
  /** This part of the Plan alone, also where it has run. */
  readonly section?: string;
}

/** One network at a time, on the page's device. What does not say otherwise throws where nothing is shown. */
export interface Engine {
  readonly signals: EngineSignals;
  /** Undefined where this browser cannot run a Plan: `unavailable` says why. */
  readonly device: Device | undefined;
  readonly unavailable: DeviceUnavailable | undefined;
  /** Runs that have ended, of all Plans. */
  readonly runCount: number;
  /** How often the context was lost. */
  readonly contextLosses: number;
  /** What the values are of; undefined before the first run, and while something else is on its way. */
  readonly currentContent: NetworkContent | undefined;
  /** What is loaded: it stays while that runs once more, and while the context is lost; undefined for nothing. */
  readonly loadedContent: NetworkContent | undefined;
  /** Bytes that textures and buffers take on the device. */
  readonly bytes: number;
  /** How many views there are. */
  readonly viewCount: number;
  /** The input that a source has fed, of what is shown; "" where it is the Content's. */
  readonly overriddenInput: string;
  /** Two examples of what is shown whose inputs are equal; undefined where there are none, or a source feeds one. */
  readonly equalExamples: EqualExamples | undefined;
  /** Somebody looks; undone by calling the result. */
  addView(): () => void;
  /**
   * Makes what `content` names and runs it, unless its values are there. One at a time; of several that wait, the last.
   * Nothing is done while the context is lost: it is when that comes back. Throws what a session throws.
   */
  show(content: NetworkContent, how?: ShowOptions): Promise<void>;
  /**
   * Edits of whatever is shown, from its next run on, which begins at once; of several calls while one is under way the
   * last. They stay for the next Plan, after a lost context and a `release`. Throws where they cannot be: those before
   * stay then. Arrays are taken from the page's store, and kept there.
   */
  setEdits(edits: readonly Edit[]): Promise<void>;
  /**
   * Feeds an input from here on in the place of the Content's, and runs; null gives it that of the Content again. Of
   * several calls while a run is under way the last: whoever has more pictures than that waits for this. It stays for
   * another Plan whose input it fits. A picture is taken when the run begins.
   */
  overrideInput(fed: InputOverride | null): Promise<void>;
  /** What was run is the state that the next run begins with: see Session. A lost context takes all of it. */
  commit(): void;
  /** Works with the session of what is shown; nothing else of this engine changes or runs it meanwhile. */
  withSession<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** The rows that each state of what is shown begins with, by texture; where none changes, all weights. */
  initialState(): WeightTextures;
  /** Runs once more what is shown, whose state has changed: views show it. */
  rerun(): Promise<void>;
  /** Somebody waits for a value of the run that is under way, if one is. */
  expedite(): void;
  /** A value's or parameter's elements, of what is shown. */
  read(key: string): Promise<Float32Array<ArrayBuffer>>;
  /** A picture as the numbers of an input; throws `unavailable` without a device. */
  resamplePicture(input: Input, picture: ImageSource): Promise<Float32Array<ArrayBuffer>>;
  /** Another session of what is shown, with its weights and inputs and without edits: whoever tries some disposes it. */
  forkSession(): Promise<Session>;
  /** All that was asked for is done: the last run is measured again when the page has come to rest. */
  notifyIdle(): void;
  /** Says in `signals.plan` what network it is, where it cannot run. */
  showPlan(plan: string): void;
  /**
   * A Plan is here and its weights are not: says in `signals.plan` what network it is, and compiles its programs. What is
   * wrong with it is said when it is shown.
   */
  compileAhead(plan: string): void;
  /** Resolves when what `compileAhead` compiles is there, or has failed. */
  whenCompiled(): Promise<void>;
  /** Frees what it holds on the device; the next `show` makes it anew. */
  release(): void;
  dispose(): void;
}
