// A training in this page: what is wanted of it, how it goes, and what runs it is given.
import { computed, type Signal, signal } from "@preact/signals";
import type { WeightTextures } from "../../engine/types.ts";
import type { StateChunk, StepReport } from "../../messages.ts";
import type { Session } from "../../plan/runtime.ts";
import type { WeightState } from "../../state/weights.ts";
import type { TrainingConfig, TrainingRecord } from "./records.ts";

export type { WeightTextures };

/** What a client has for a training: the engine's session, blobs, and a way to Python. */
export interface TrainingHost {
  /** This page's name, as a training's owner. */
  readonly page: string;
  /** Whether Python can be asked for another batch size or for layers to be frozen. */
  readonly canRecompile: boolean;
  /** The hash of the Plan that is loaded, also while that runs and while the context is lost; "" for none. */
  readonly planHash: string;
  /** Whether its values are there: not while a run is on its way, and not while the context is lost. */
  readonly hasValues: boolean;
  /** How often the context was lost: with it went all that was learned since the last state that was kept. */
  readonly contextLosses: number;
  /** The rows of all that changes, as it is at first, by texture; of a Plan where nothing does, of all weights now. */
  initialWeights(): WeightTextures;
  /** Those of a loop in Python that are loaded. */
  readonly weightOverrides: WeightTextures | undefined;
  withSession<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Runs the network that is shown on the weights of now. */
  refresh(): Promise<void>;
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Two numbers for each step: its loss, and the share of right answers. */
  reportSteps(stepped: Omit<StepReport, "type" | "page">, rows: Float32Array<ArrayBuffer>): void;
  /** Bytes of a message, at most. */
  readonly maxChunkBytes: number;
  /** A part of all that changes, in the config's order. */
  sendWeights(saved: Omit<StateChunk, "type" | "page">, part: ArrayBuffer): void;
  /** Has the browser save the weights that are shown; null where Python has them. */
  readonly saveWeights: (() => Promise<void>) | null;
}

/** Steps done, the loss of what is held out, and its share of right answers. */
export type HeldOutLoss = readonly [step: number, loss: number, share: number | null];

/** What was told of steps, from the first on. */
export interface LossCurve {
  /** One for each step. */
  readonly losses: readonly number[];
  /** The share of right answers of each step's batch; NaN where targets are no classes. */
  readonly accuracies: readonly number[];
  readonly heldOut: readonly HeldOutLoss[];
}

/** A state to look at and to go back to. */
export interface Checkpoint {
  /** Unlike any other's of this training. */
  readonly id: number;
  /** Steps done. */
  readonly step: number;
  /** Of what is held out, where some is; else of the last step before it (NaN at step 0). */
  readonly loss: number;
  /** 0 for the curve of now; else the number of the branch that it is of: see `branches`. */
  readonly branch: number;
  /** The parameters that are trained, row-major, by the names of the config's `trained_parameters`. */
  readonly arrays: ReadonlyMap<string, Float32Array>;
  /** Whether it can be shown and gone back to: not where layers that were frozen then are trained now. */
  readonly fits: boolean;
  /** The output for the fixed examples, one after the other; empty where there are none. */
  readonly predictions: Float32Array;
}

/** The examples whose predictions are watched: some of what is held out, or of what is learned from. */
export interface Examples {
  readonly isHeldOut: boolean;
  readonly count: number;
  /** Of the model's first input, one after the other, as the network gets them; shape of one. */
  readonly inputs: Float32Array;
  readonly inputShape: readonly number[];
  /** Empty where the loss has no targets. A class is one number (or one for each place). */
  readonly targets: Float32Array;
  readonly targetShape: readonly number[];
  /** Of one example's output. */
  readonly outputShape: readonly number[];
}

export type TrainingPhase =
  /** No training. */
  | "off"
  /** For data, the Plan or Python. */
  | "waiting"
  | "running"
  | "paused"
  /** Until somebody sees the page. */
  | "hidden"
  /** Another page runs it: its curve and its weights come when that one saves. */
  | "elsewhere"
  /** A loop in Python: its weights and its curve come from there. */
  | "mirrored"
  | "stopped"
  | "failed"
  /** This device can't train: `message` says why. */
  | "refused";

export interface TrainingProgress extends LossCurve {
  readonly phase: TrainingPhase;
  /** What went wrong, or why it goes on from an earlier step; "" for nothing. */
  readonly message: string;
  /** What never changes of it; null while it isn't here. */
  readonly config: TrainingConfig | null;
  /** Steps done. */
  readonly step: number;
  /** Examples seen. */
  readonly examples: number;
  /** Milliseconds that a step takes, of the last ones. */
  readonly stepMs: number;
  /** Curves that were left by going back with `keep`; the first is branch 1. */
  readonly branches: readonly LossCurve[];
  /** By branch and step; ever sparser towards the beginning. */
  readonly checkpoints: readonly Checkpoint[];
  /** The id of the checkpoint that all views show, while it pauses; null for the weights of now. */
  readonly shownCheckpoint: number | null;
  readonly fixedExamples: Examples | null;
  /** The output for the fixed examples, with the weights of now; null before it was computed. */
  readonly predictions: Float32Array | null;
  /** |update| / |weight| of the last step that was measured, for each of the config's `trained_parameters`. */
  readonly updateRatios: Float32Array | null;
  /** The share of channels that are 0 for the whole batch, for each of the config's `relu_layers`. */
  readonly deadUnits: Float32Array | null;
}

/** What views ask of a training that runs here, beside what they write into the record. */
export interface TrainingActions {
  /**
   * Reads parameters (by the names of the config's `trained_parameters`) and gradients of the last step (by the keys in its
   * `gradients`, zeros before the first) now, and again whenever views are refreshed (four times a second at most)
   * until the result is called. `take` gets the arrays, row-major, in the order of the keys.
   */
  watch(keys: readonly string[], take: (arrays: Float32Array[]) => void): () => void;
  /** Shows a checkpoint's weights in all views while it pauses; null: those of now again. */
  showCheckpoint(id: number | null): void;
  /** Pauses, and goes on from there when asked to; `keep`: the curve of now becomes a branch, with its checkpoints. */
  restoreCheckpoint(id: number, keep: boolean): void;
}

export const NO_TRAINING: TrainingProgress = {
  phase: "off",
  message: "",
  config: null,
  step: 0,
  examples: 0,
  losses: [],
  accuracies: [],
  heldOut: [],
  stepMs: 0,
  branches: [],
  checkpoints: [],
  shownCheckpoint: null,
  fixedExamples: null,
  predictions: null,
  updateRatios: null,
  deadUnits: null,
};

/** Follows one training. */
export interface TrainingFollower {
  readonly id: string;
  readonly round: number;
  update(record: TrainingRecord): void;
  close(): void;
}

export interface TrainingState {
  /** What is wanted; views change it: state, lr, noise, until, batch, frozen; another id begins again. */
  readonly training: Signal<TrainingRecord | null>;
  /** null where the page cannot train: it cannot draw, or not in 32 bits. */
  readonly trainingHost: Signal<TrainingHost | null>;
  readonly progress: Signal<TrainingProgress>;
  /** What pages show where another one trains: a blob of Python's `Trained.seen_by_others`, of a round of a training. */
  readonly remoteView: Signal<{ training?: string; round?: number; blob: string }>;
  /** The id of the checkpoint that the reader has chosen; null for none. */
  readonly selectedCheckpoint: Signal<number | null>;
  /** Follows a loop in Python; null where no feature does. */
  readonly createWeightFollower: Signal<
    ((host: TrainingHost, record: TrainingRecord) => TrainingFollower) | null
  >;
  /** null while none runs here. */
  readonly trainingActions: Signal<TrainingActions | null>;
}

declare module "../../state.ts" {
  interface ViewerState extends TrainingState {}
}

/** What a training does to the weights in each phase, where it does something. */
const WEIGHT_CLAIMS: { readonly [P in TrainingPhase]?: "resting" | "changing" } = {
  waiting: "changing",
  running: "changing",
  paused: "resting",
  hidden: "resting",
};

export const trainingState = (): TrainingState & Pick<WeightState, "weightActivity"> => {
  const progress = signal(NO_TRAINING);
  return {
    training: signal(null),
    trainingHost: signal(null),
    progress,
    weightActivity: computed(() => WEIGHT_CLAIMS[progress.value.phase] ?? ""),
    remoteView: signal({ blob: "" }),
    selectedCheckpoint: signal(null),
    createWeightFollower: signal(null),
    trainingActions: signal(null),
  };
};
