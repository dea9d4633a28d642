// Trains in an exported page: what the loop is given there, and what scripts and readers ask of it.
import { batch, effect } from "@preact/signals";
import { SessionAccess } from "../engine/session_access.ts";
import type { Engine } from "../engine/types.ts";
import { fileName, save } from "../features/export/views/files.ts";
import { fileOf, tensorOf, tensorsIn } from "../features/teaching/safetensors.ts";
import type { TrainingRecord } from "../features/training/records.ts";
import {
  NO_TRAINING,
  type TrainingHost,
  type TrainingProgress,
} from "../features/training/state.ts";
import { courseOf } from "../features/training/training_config.ts";
import type { Exported } from "../messages.ts";
import type { ViewerState } from "../state.ts";
import { marked } from "./marks.ts";

/** What scripts ask of a page that trains; all of it rejects where it can't, and says why. */
export interface PageTraining {
  /** The loss of each step so far. */
  readonly losses: Float32Array;
  /** Trains until it is paused, or its end; resolves as soon as it is on its way. */
  train(): Promise<void>;
  /** Resolves once the step under way is done, and the views show the network of now. */
  pause(): Promise<void>;
  /** Pauses behind so many steps more; resolves then. */
  step(count?: number): Promise<void>;
  /** Begins again with the first weights, paused. */
  reset(): Promise<void>;
  /** The weights that are shown as a file in the safetensors format. */
  weights(): Promise<Uint8Array<ArrayBuffer>>;
}

const WEAK =
  "This device draws 16-bit floats only: most gradients would be 0, so that the network can’t be trained here. " +
  "Everything else works.";

/** The page is the only one that can run its training. */
const PAGE = "page";

/** How often it began again: each time has a name of its own. */
let resets = 0;

/** What the page's loop is given; Python, which could be told or asked, there is none. */
class PageTrainer extends SessionAccess implements TrainingHost {
  readonly page = PAGE;
  readonly compiles = false;
  readonly chunk = Number.MAX_SAFE_INTEGER;
  readonly saveWeights: () => Promise<void>;
  readonly blob: (name: string) => Promise<Uint8Array<ArrayBuffer>>;
  /** Of the training's Plan. */
  private readonly hash: string;

  constructor(engine: Engine, hash: string, blob: PageTrainer["blob"], save: () => Promise<void>) {
    super(engine);
    this.hash = hash;
    this.blob = blob;
    this.saveWeights = save;
  }

  get plan(): string {
    return this.engine.content === undefined ? "" : this.hash;
  }

  tell(): void {
    // The curve has it.
  }

  save(): void {
    // Checkpoints are in the page, and its reader saves weights.
  }
}

export class OwnTraining implements PageTraining {
  private readonly state: ViewerState;
  private readonly engine: Engine;
  private readonly exported: Exported;
  private readonly blob: PageTrainer["blob"];

  constructor(
    state: ViewerState,
    engine: Engine,
    exported: Exported,
    blob: (name: string) => Promise<Uint8Array<ArrayBuffer>>,
  ) {
    this.state = state;
    this.engine = engine;
    this.exported = exported;
    this.blob = blob;
  }

  /** What the page holds is here: it can begin, where this device can train. */
  async open(): Promise<void> {
    const { state, engine, exported, blob } = this;
    const record = exported.training as TrainingRecord | null;
    if (record === null || engine.device === undefined) return;
    const course = await courseOf(blob, record);
    const weak = engine.device.capabilities.precision !== "float32";
    batch(() => {
      state.training.value = record;
      if (weak) state.progress.value = { ...NO_TRAINING, phase: "refused", message: WEAK };
      else
        state.trainer.value = new PageTrainer(engine, course.plan, blob, () => this.saveWeights());
    });
    let known = state.edited.peek().edits;
    effect(() => {
      const { edits } = state.edited.value;
      const now = state.training.peek();
      if (now === null || edits === known) return;
      const marks = marked(now.marks, known, edits, state.progress.peek().step);
      known = edits;
      if (now.state !== "stopped" && marks !== now.marks) state.training.value = { ...now, marks };
    });
  }

  get losses(): Float32Array {
    return Float32Array.from(this.state.progress.peek().losses);
  }

  async train(): Promise<void> {
    this.change({ state: "running", until: -1 });
    await this.when(({ phase }) => phase !== "paused");
  }

  async pause(): Promise<void> {
    this.change({ state: "paused", until: -1 });
    await this.when(({ phase }) => phase === "paused");
  }

  async step(count = 1): Promise<void> {
    if (!Number.isInteger(count) || count < 1)
      throw new RangeError(`a number of steps is a whole one of at least 1, not ${count}`);
    await this.pause();
    const until = this.state.progress.peek().step + count;
    this.change({ state: "running", until });
    await this.when(({ phase, step }) => phase === "paused" && step >= until);
  }

  async reset(): Promise<void> {
    const record = this.record();
    resets += 1;
    const begun = {
      ...record,
      id: `${PAGE} ${resets}`,
      state: "paused" as const,
      until: -1,
      marks: [],
    };
    this.state.training.value = begun;
    await this.when(({ phase, step }) => phase === "paused" && step === 0);
  }

  async weights(): Promise<Uint8Array<ArrayBuffer>> {
    this.record();
    const { weights, rest } = this.exported;
    const own = await this.engine.use(async (session) => {
      const shapes = new Map(session.plan.parameters.map(({ key, shape }) => [key, shape]));
      const found = [];
      for (const name of weights)
        found.push(tensorOf(name, shapes.get(name) ?? [], await session.read(name)));
      return found;
    });
    return fileOf([...own, ...(rest === "" ? [] : tensorsIn(await this.blob(rest)))]);
  }

  private async saveWeights(): Promise<void> {
    const { plan, progress } = this.state;
    const { looking, checkpoints, step } = progress.peek();
    const shown = checkpoints.find(({ id }) => id === looking)?.step ?? step;
    const name = fileName([plan.peek()?.name ?? "", `step ${shown}`], "safetensors");
    save(new Blob([await this.weights()]), name);
  }

  /** What is wanted; throws where the page can't train. */
  private record(): TrainingRecord {
    const { training, trainer, progress } = this.state;
    const record = training.peek();
    if (this.exported.training === null)
      throw new Error("this page doesn’t train: it was written without train={…}");
    if (record !== null && trainer.peek() !== null) return record;
    throw new Error(progress.peek().message || "the network is not here yet");
  }

  private change(part: Partial<TrainingRecord>): void {
    const record = this.record();
    if (record.state === "stopped") throw new Error(ended(this.state.progress.peek()));
    this.state.training.value = { ...record, ...part };
  }

  /** Resolves when the training is so; rejects when it has ended or failed before. */
  private when(is: (progress: TrainingProgress) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = effect(() => {
        const progress = this.state.progress.value;
        const { phase, message } = progress;
        if (is(progress)) resolve();
        else if (phase === "failed") reject(new Error(message));
        else if (phase === "stopped") reject(new Error(ended(progress)));
        else return;
        queueMicrotask(() => stop()); // it has a name by then
      });
    });
  }
}

const ended = ({ step, message }: TrainingProgress): string =>
  `the training has ended behind ${step} steps, reset() begins again${message && `: ${message}`}`;
