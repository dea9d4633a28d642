// A training in this page: what is wanted of it, how it goes, and what runs it is given.
import { type Signal, signal } from "@preact/signals";
import type { Session } from "../gl/types.ts";
import type { Stepped } from "../messages.ts";
import type { TrainingRecord } from "../training.ts";

/** What a client has for a training: the engine's session, blobs, and a way to Python. */
export interface TrainingHost {
  /** This page's name, as a training's owner. */
  readonly page: string;
  /** The hash of the Plan that is shown; "" for none, and while the context is lost. */
  readonly plan: string;
  /** How often the context was lost: with it went all that was learned since the last state that was kept. */
  readonly losses: number;
  /** The rows of all that changes, as it is at first, by texture. */
  initial(): ReadonlyMap<number, Float32Array>;
  use<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Runs the network that is shown on the weights of now. */
  refresh(): Promise<void>;
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
  /** Two numbers for each step: its loss, and the share of right answers. */
  tell(stepped: Omit<Stepped, "type" | "page">, rows: Float32Array<ArrayBuffer>): void;
  /** All that changes, in the Course's order; `last`: the training has ended. */
  save(training: string, step: number, state: Float32Array<ArrayBuffer>, last: boolean): void;
}

export interface TrainingProgress {
  /** "waiting": for data or the Plan; "hidden": until somebody sees the page; "elsewhere": another page runs it. */
  readonly phase:
    | "off"
    | "waiting"
    | "running"
    | "paused"
    | "hidden"
    | "elsewhere"
    | "stopped"
    | "failed";
  /** What went wrong, or why it goes on from an earlier step; "" for nothing. */
  readonly message: string;
  /** Steps done. */
  readonly step: number;
  /** Examples seen. */
  readonly examples: number;
  /** One for each step. */
  readonly losses: readonly number[];
  readonly accuracies: readonly number[];
  /** Steps done, loss and right answers of what is held out. */
  readonly heldOut: readonly (readonly [step: number, loss: number, share: number | null])[];
  /** Milliseconds of the last step. */
  readonly ms: number;
}

export const NO_TRAINING: TrainingProgress = {
  phase: "off",
  message: "",
  step: 0,
  examples: 0,
  losses: [],
  accuracies: [],
  heldOut: [],
  ms: 0,
};

export interface TrainingState {
  readonly training: Signal<TrainingRecord | null>;
  /** null where the page cannot train: it cannot draw, or not in 32 bits. */
  readonly trainer: Signal<TrainingHost | null>;
  readonly progress: Signal<TrainingProgress>;
}

export const trainingState = (): TrainingState => ({
  training: signal(null),
  trainer: signal(null),
  progress: signal(NO_TRAINING),
});
