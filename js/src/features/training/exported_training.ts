// Training in an exported page: the loop's host, and the functions for scripts and readers.
import { batch, effect } from "@preact/signals";
import type { PageData } from "../../messages.ts";
import type { ViewerState } from "../../state.ts";
import { fileName, saveFile } from "../export/views/file_saving.ts";
import type { ViewerHost } from "../feature.ts";
import { deserializeTensors, float32Tensor, serializeTensors } from "../teaching/safetensors.ts";
import { addEditMarks } from "./edit_marks.ts";
import { EngineTrainingHost } from "./engine_host.ts";
import type { TrainingRecord } from "./records.ts";
import { NO_TRAINING, type TrainingHost, type TrainingProgress } from "./state.ts";
import { fetchTrainingConfig } from "./training_config.ts";

/**
 * The training functions for scripts of an exported page. All promises reject with the reason if the page cannot train.
 */
export interface TrainingScriptApi {
  /** The loss of each step so far. */
  readonly losses: Float32Array;
  /** Train until paused or finished; resolves as soon as training is running. */
  train(): Promise<void>;
  /** Pause; resolves once the current step has finished and the views show the current network. */
  pause(): Promise<void>;
  /** Train this many more steps, then pause; resolves when paused. */
  step(count?: number): Promise<void>;
  /** Restart from the initial weights, paused. */
  reset(): Promise<void>;
  /** The shown weights as a file in the safetensors format. */
  weights(): Promise<Uint8Array<ArrayBuffer>>;
}

declare module "../../page/page_client.ts" {
  interface PageApi extends TrainingScriptApi {}
}

const FLOAT32_REQUIRED_TEXT =
  "This device supports only float16 values: most gradients would be 0, so the network can’t be trained here. " +
  "Everything else works.";

/** Number of resets: each training has its own name. */
let resetCount = 0;

/** Host of the training loop in a page without Python. */
class ExportedTrainingHost extends EngineTrainingHost implements TrainingHost {
  readonly pageId: string;
  readonly canRecompile = false;
  readonly maxChunkBytes = Number.MAX_SAFE_INTEGER;
  readonly saveWeights: () => Promise<void>;
  readonly blob: ViewerHost["blob"];
  /** The hash of the training's Plan. */
  private readonly trainingPlanHash: string;

  constructor({ pageId, engine, blob }: ViewerHost, hash: string, save: () => Promise<void>) {
    super(engine);
    this.pageId = pageId;
    this.trainingPlanHash = hash;
    this.blob = blob;
    this.saveWeights = save;
  }

  get planHash(): string {
    return this.engine.loadedContent === undefined ? "" : this.trainingPlanHash;
  }

  reportSteps(): void {
    // The loss curve already contains the steps.
  }

  sendWeights(): void {
    // Checkpoints stay in the page; the reader saves weights to a file.
  }
}

export class ExportedTraining {
  readonly scriptApi: TrainingScriptApi;
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

  /** The exported page has loaded: start the training if this device can train. */
  async open(): Promise<void> {
    const { host, state, exported } = this;
    const { engine, blob } = host;
    const record = exported.training as TrainingRecord | null;
    if (record === null || engine.device === undefined) return;
    const course = await fetchTrainingConfig(blob, record);
    const weak = engine.device.capabilities.precision !== "float32";
    batch(() => {
      state.training.value = record;
      if (weak)
        state.progress.value = { ...NO_TRAINING, phase: "refused", message: FLOAT32_REQUIRED_TEXT };
      else
        state.trainingHost.value = new ExportedTrainingHost(host, course.plan, () =>
          this.saveWeights(),
        );
    });
    let known = state.currentEdits.peek().edits;
    effect(() => {
      const { edits } = state.currentEdits.value;
      const now = state.training.peek();
      if (now === null || edits === known) return;
      const marks = addEditMarks(now.marks, known, edits, state.progress.peek().step);
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
      id: `${this.host.pageId} ${resetCount}`,
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
    const { shownCheckpointId, checkpoints, step } = progress.peek();
    const shown = checkpoints.find(({ id }) => id === shownCheckpointId)?.step ?? step;
    const name = fileName([plan.peek()?.name ?? "", `step ${shown}`], "safetensors");
    saveFile(new Blob([await this.weights()]), name);
  }

  /** The training record; throws if the page cannot train. */
  private requireRecord(): TrainingRecord {
    const { training, trainingHost, progress } = this.state;
    const record = training.peek();
    if (this.exported.training === null)
      throw new Error("this page doesn’t train: it was written without train={…}");
    if (record !== null && trainingHost.peek() !== null) return record;
    throw new Error(progress.peek().message || "the network has not loaded");
  }

  private updateRecord(changes: Partial<TrainingRecord>): void {
    const record = this.requireRecord();
    if (record.state === "stopped") throw new Error(trainingEndedText(this.state.progress.peek()));
    this.state.training.value = { ...record, ...changes };
  }

  /** Resolve when the progress satisfies `condition`; reject if the training ends or fails first. */
  private waitFor(condition: (progress: TrainingProgress) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = effect(() => {
        const progress = this.state.progress.value;
        const { phase, message } = progress;
        if (condition(progress)) resolve();
        else if (phase === "failed") reject(new Error(message));
        else if (phase === "stopped") reject(new Error(trainingEndedText(progress)));
        else return;
        queueMicrotask(() => stop()); // deferred: `stop` is not assigned yet in the first call
      });
    });
  }
}

const trainingEndedText = ({ step, message }: TrainingProgress): string =>
  `the training has ended behind ${step} steps, reset() begins again${message && `: ${message}`}`;
