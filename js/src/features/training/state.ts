// State of a training in this page: the requested settings, the progress, and the host that it runs on.
import { computed, type Signal, signal } from "@preact/signals";
import type { WeightDataByTexture } from "../../engine/types.ts";
import type { StateChunk, StepReport } from "../../messages.ts";
import type { Session } from "../../plan/runtime.ts";
import type { WeightState } from "../../state/weights.ts";
import type { TrainingConfig, TrainingRecord } from "./records.ts";

export type { WeightDataByTexture };

/** What a training needs from its client: the engine's session, blobs, and a connection to Python. */
export interface TrainingHost {
  /** This page's name, used as the owner of a training. */
  readonly pageId: string;
  /** Whether Python can recompile for another batch size or other frozen layers. */
  readonly canRecompile: boolean;
  /** The hash of the loaded Plan, also during a run and while the context is lost; "" for none. */
  readonly planHash: string;
  /** Whether the Plan's values are available: false during a run and while the context is lost. */
  readonly hasValues: boolean;
  /** The number of context losses. Each one discards the training since the last saved state. */
  readonly contextLossCount: number;
  /** The packed rows of the initial training state, by texture; for a Plan without state, of all current weights. */
  initialWeights(): WeightDataByTexture;
  /** The loaded weight overrides, from a training loop in Python. */
  readonly weightOverrides: WeightDataByTexture | undefined;
  withSession<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Run the displayed network with the current weights. */
  refresh(): Promise<void>;
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Report two numbers for each step: its loss and its accuracy. */
  reportSteps(report: Omit<StepReport, "type" | "page">, lossRows: Float32Array<ArrayBuffer>): void;
  /** Maximum size of a message in bytes. */
  readonly maxChunkBytes: number;
  /** Send a chunk of the training state, in the config's order. */
  sendWeights(chunkInfo: Omit<StateChunk, "type" | "page">, chunk: ArrayBuffer): void;
  /** Let the browser save the displayed weights; null if Python has them. */
  readonly saveWeights: (() => Promise<void>) | null;
}

/** Number of steps done, held-out loss, and held-out accuracy. */
export type HeldOutLoss = readonly [step: number, loss: number, share: number | null];

/** The reported losses and accuracies, from the first step on. */
export interface LossCurve {
  /** One for each step. */
  readonly losses: readonly number[];
  /** The accuracy on each step's batch; NaN if the targets are not classes. */
  readonly accuracies: readonly number[];
  readonly heldOut: readonly HeldOutLoss[];
}

/** A saved training state that can be shown and restored. */
export interface Checkpoint {
  /** Unique within this training. */
  readonly id: number;
  /** Number of steps done. */
  readonly step: number;
  /** The held-out loss if there are held-out examples; else the loss of the step before (NaN at step 0). */
  readonly loss: number;
  /** 0 for the current curve; else the number of the checkpoint's branch, see `branches`. */
  readonly branchNumber: number;
  /** The trained parameters, row-major, by the names in the config's `trained_parameters`. */
  readonly parameterArrays: ReadonlyMap<string, Float32Array>;
  /** Whether the checkpoint can be shown and restored: false if layers that were frozen then are trained now. */
  readonly isRestorable: boolean;
  /** The outputs for the fixed examples, concatenated; empty if there are none. */
  readonly predictions: Float32Array;
}

/** The fixed examples whose predictions are shown: some of the held-out examples, or of the training examples. */
export interface FixedExampleData {
  readonly isHeldOut: boolean;
  readonly count: number;
  /**
   * Values of the model's first input as the network receives them, concatenated; `inputShape` is the shape of one
   * example.
   */
  readonly inputs: Float32Array;
  readonly inputShape: readonly number[];
  /** Empty if the loss has no targets. A class is one number (or one for each position). */
  readonly targets: Float32Array;
  readonly targetShape: readonly number[];
  /** The shape of one example's output. */
  readonly outputShape: readonly number[];
}

export type TrainingPhase =
  /** No training. */
  | "off"
  /** For data, the Plan or Python. */
  | "waiting"
  | "running"
  | "paused"
  /** Until the page is visible. */
  | "hidden"
  /** Another page trains: this page's curve and weights update when that page saves. */
  | "elsewhere"
  /** A training loop in Python provides the weights and the curve. */
  | "mirrored"
  | "stopped"
  | "failed"
  /** This device can't train: `message` has the reason. */
  | "refused";

export interface TrainingProgress extends LossCurve {
  readonly phase: TrainingPhase;
  /** The error, or the reason for continuing from an earlier step; "" for none. */
  readonly message: string;
  /** The fixed configuration of the training; null until it has loaded. */
  readonly config: TrainingConfig | null;
  /** Number of steps done. */
  readonly step: number;
  /** Number of examples seen. */
  readonly examplesSeen: number;
  /** Milliseconds per step, averaged over recent steps. */
  readonly stepMs: number;
  /** Curves that `restoreCheckpoint` kept with `keepBranch`; the first is branch 1. */
  readonly branches: readonly LossCurve[];
  /** In order of branch and step; increasingly sparse towards the beginning. */
  readonly checkpoints: readonly Checkpoint[];
  /** The id of the checkpoint that all views show while the training is paused; null for the current weights. */
  readonly shownCheckpointId: number | null;
  readonly fixedExamples: FixedExampleData | null;
  /** The outputs for the fixed examples with the current weights; null until computed. */
  readonly predictions: Float32Array | null;
  /** |update| / |weight| of the last measured step, for each of the config's `trained_parameters`. */
  readonly updateRatios: Float32Array | null;
  /** The fraction of channels that are 0 for the whole batch, for each of the config's `relu_layers`. */
  readonly deadUnits: Float32Array | null;
}

/** Actions of views on a training that runs in this page, in addition to changing the record. */
export interface TrainingActions {
  /**
   * Read parameters (by the names in the config's `trained_parameters`) and gradients of the last step (by the keys in
   * its `gradients`; zeros before the first step) now, and again whenever views refresh (at most four times a second)
   * until the returned function is called. `onArrays` receives the arrays, row-major, in the order of the keys.
   */
  watch(keys: readonly string[], onArrays: (arrays: Float32Array[]) => void): () => void;
  /** Show a checkpoint's weights in all views while the training is paused; null restores the current ones. */
  showCheckpoint(id: number | null): void;
  /**
   * Pause and restore a checkpoint; resuming continues from it. `keepBranch`: the current curve becomes a branch, with
   * its checkpoints.
   */
  restoreCheckpoint(id: number, keepBranch: boolean): void;
}

export const NO_TRAINING: TrainingProgress = {
  phase: "off",
  message: "",
  config: null,
  step: 0,
  examplesSeen: 0,
  losses: [],
  accuracies: [],
  heldOut: [],
  stepMs: 0,
  branches: [],
  checkpoints: [],
  shownCheckpointId: null,
  fixedExamples: null,
  predictions: null,
  updateRatios: null,
  deadUnits: null,
};

/** Follows one training record. */
export interface TrainingFollower {
  readonly id: string;
  readonly swapCount: number;
  update(record: TrainingRecord): void;
  close(): void;
}

export interface TrainingState {
  /** The requested settings. Views change state, lr, noise, until, batch and frozen; a new id restarts the training. */
  readonly training: Signal<TrainingRecord | null>;
  /** null if the page cannot train: it cannot draw, or not in 32 bits. */
  readonly trainingHost: Signal<TrainingHost | null>;
  readonly progress: Signal<TrainingProgress>;
  /**
   * The state that pages show while another one trains: a blob of Python's `CompiledTraining.pack_remote_view`, for
   * one round of a training.
   */
  readonly remoteView: Signal<{ training?: string; round?: number; blob: string }>;
  /** The id of the checkpoint that the user has selected; null for none. */
  readonly selectedCheckpointId: Signal<number | null>;
  /** Creates a follower of a training loop in Python; null if no feature provides one. */
  readonly createWeightFollower: Signal<
    ((host: TrainingHost, record: TrainingRecord) => TrainingFollower) | null
  >;
  /** null if no training runs in this page. */
  readonly trainingActions: Signal<TrainingActions | null>;
}

declare module "../../state.ts" {
  interface ViewerState extends TrainingState {}
}

/** The effect of a training on the weights, for each phase that has one. */
const WEIGHT_ACTIVITY: { readonly [P in TrainingPhase]?: "resting" | "changing" } = {
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
    weightActivity: computed(() => WEIGHT_ACTIVITY[progress.value.phase] ?? ""),
    remoteView: signal({ blob: "" }),
    selectedCheckpointId: signal(null),
    createWeightFollower: signal(null),
    trainingActions: signal(null),
  };
};
