// Trains in an exported page: what the loop has there, and what scripts and readers ask of it.
import { batch, effect } from "@preact/signals";
import type { PageData } from "../../messages.ts";
import type { ViewerState } from "../../state.ts";
import { fileName, saveFile } from "../export/views/file_saving.ts";
import type { ViewerHost } from "../feature.ts";
import { deserializeTensors, float32Tensor, serializeTensors } from "../teaching/safetensors.ts";
import { updateMarks } from "./edit_marks.ts";
import { EngineTrainingHost } from "./engine_host.ts";
import type { TrainingRecord } from "./records.ts";
import { NO_TRAINING, type TrainingHost, type TrainingProgress } from "./state.ts";
import { fetchTrainingConfig } from "./training_config.ts";

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

declare module "../../page/page_client.ts" {
  interface PageApi extends PageTraining {}
}

const NEEDS_FLOAT32 =
  "This device supports only float16 values: most gradients would be 0, so the network can’t be trained here. " +
  "Everything else works.";

/** How often it began again: each time has a name of its own. */
let resetCount = 0;

/** What a training has without Python. */
class ExportedTrainingHost extends EngineTrainingHost implements TrainingHost {
  readonly page: string;
  readonly canRecompile = false;
  readonly maxChunkBytes = Number.MAX_SAFE_INTEGER;
  readonly saveWeights: () => Promise<void>;
  readonly blob: ViewerHost["blob"];
  /** Of the training's Plan. */
  private readonly trainingPlan: string;

  constructor({ page, engine, blob }: ViewerHost, hash: string, save: () => Promise<void>) {
    super(engine);
    this.page = page;
    this.trainingPlan = hash;
    this.blob = blob;
    this.saveWeights = save;
  }

  get planHash(): string {
    return this.engine.loadedContent === undefined ? "" : this.trainingPlan;
  }

  reportSteps(): void {
    // The curve has it.
  }

  sendWeights(): void {
    // Checkpoints are in the page, and its reader saves weights.
  }
}

export class ExportedTraining {
  readonly scriptApi: PageTraining;
  private readonly host: ViewerHost;
  private readonly state: ViewerState;
  private readonly exported: PageData;

  constructor(host: ViewerHost, exported: PageData) {
    this.host = host;
    this.state = host.state;
    this.exported = exported;
    const { state } = this;
    this.scriptApi = {
      get losses() {
        return Float32Array.from(state.progress.peek().losses);
      },
      train: () => this.train(),
      pause: () => this.pause(),
      step: (count) => this.step(count),
      reset: () => this.reset(),
      weights: () => this.weights(),
    };
  }

  /** What the page holds is here: it can begin, where this device can train. */
  async open(): Promise<void> {
    const { host, state, exported } = this;
    const { engine, blob } = host;
    const record = exported.training as TrainingRecord | null;
    if (record === null || engine.device === undefined) return;
    const course = await fetchTrainingConfig(blob, record);
    const weak = engine.device.capabilities.precision !== "float32";
    batch(() => {
      state.training.value = record;
      if (weak) state.progress.value = { ...NO_TRAINING, phase: "refused", message: NEEDS_FLOAT32 };
      else
        state.trainingHost.value = new ExportedTrainingHost(host, course.plan, () =>
          this.saveWeights(),
        );
    });
    let known = state.presentEdits.peek().edits;
    effect(() => {
      const { edits } = state.presentEdits.value;
      const now = state.training.peek();
      if (now === null || edits === known) return;
      const marks = updateMarks(now.marks, known, edits, state.progress.peek().step);
      known = edits;
      if (now.state !== "stopped" && marks !== now.marks) state.training.value = { ...now, marks };
    });
  }

  private async train(): Promise<void> {
    this.updateRecord({ state: "running", pause_at: -1 });
    await this.waitFor(({ phase }) => phase !== "paused");
  }

  private async pause(): Promise<void> {
    this.updateRecord({ state: "paused", pause_at: -1 });
    await this.waitFor(({ phase }) => phase === "paused");
  }

  private async step(count = 1): Promise<void> {
    if (!Number.isInteger(count) || count < 1)
      throw new RangeError(`the number of steps must be an integer of at least 1, not ${count}`);
    await this.pause();
    const pauseAt = this.state.progress.peek().step + count;
    this.updateRecord({ state: "running", pause_at: pauseAt });
    await this.waitFor(({ phase, step }) => phase === "paused" && step >= pauseAt);
  }

  private async reset(): Promise<void> {
    const record = this.requireRecord();
    resetCount += 1;
    const begun = {
      ...record,
      id: `${this.host.page} ${resetCount}`,
      state: "paused" as const,
      pause_at: -1,
      marks: [],
    };
    this.state.training.value = begun;
    await this.waitFor(({ phase, step }) => phase === "paused" && step === 0);
  }

  private async weights(): Promise<Uint8Array<ArrayBuffer>> {
    this.requireRecord();
    const { weight_names, other_weights } = this.exported;
    const own = await this.host.engine.withSession(async (session) => {
      const shapes = new Map(session.plan.parameters.map(({ key, shape }) => [key, shape]));
      const found = [];
      for (const name of weight_names)
        found.push(float32Tensor(name, shapes.get(name) ?? [], await session.read(name)));
      return found;
    });
    return serializeTensors([
      ...own,
      ...(other_weights === "" ? [] : deserializeTensors(await this.host.blob(other_weights))),
    ]);
  }

  private async saveWeights(): Promise<void> {
    const { plan, progress } = this.state;
    const { shownCheckpoint, checkpoints, step } = progress.peek();
    const shown = checkpoints.find(({ id }) => id === shownCheckpoint)?.step ?? step;
    const name = fileName([plan.peek()?.name ?? "", `step ${shown}`], "safetensors");
    saveFile(new Blob([await this.weights()]), name);
  }

  /** What is wanted; throws where the page can't train. */
  private requireRecord(): TrainingRecord {
    const { training, trainingHost, progress } = this.state;
    const record = training.peek();
    if (this.exported.training === null)
      throw new Error("this page doesn’t train: it was written without train={…}");
    if (record !== null && trainingHost.peek() !== null) return record;
    throw new Error(progress.peek().message || "the network has not loaded");
  }

  private updateRecord(part: Partial<TrainingRecord>): void {
    const record = this.requireRecord();
    if (record.state === "stopped") throw new Error(endedText(this.state.progress.peek()));
    this.state.training.value = { ...record, ...part };
  }

  /** Resolves when the training is so; rejects when it has ended or failed before. */
  private waitFor(is: (progress: TrainingProgress) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = effect(() => {
        const progress = this.state.progress.value;
        const { phase, message } = progress;
        if (is(progress)) resolve();
        else if (phase === "failed") reject(new Error(message));
        else if (phase === "stopped") reject(new Error(endedText(progress)));
        else return;
        queueMicrotask(() => stop()); // it has a name by then
      });
    });
  }
}

const endedText = ({ step, message }: TrainingProgress): string =>
  `the training has ended behind ${step} steps, reset() begins again${message && `: ${message}`}`;
