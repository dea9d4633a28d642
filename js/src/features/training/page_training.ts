// Trains in an exported page: what the loop has there, and what scripts and readers ask of it.
import { batch, effect } from "@preact/signals";
import type { Exported } from "../../messages.ts";
import type { ViewerState } from "../../state.ts";
import { fileName, save } from "../export/views/files.ts";
import type { Host } from "../feature.ts";
import { fileOf, tensorOf, tensorsIn } from "../teaching/safetensors.ts";
import { EngineHost } from "./engine_host.ts";
import { marked } from "./marks.ts";
import type { TrainingRecord } from "./records.ts";
import { NO_TRAINING, type TrainingHost, type TrainingProgress } from "./state.ts";
import { courseOf } from "./training_config.ts";

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

declare module "../../page/client.ts" {
  interface Page extends PageTraining {}
}

const WEAK =
  "This device draws 16-bit floats only: most gradients would be 0, so that the network can’t be trained here. " +
  "Everything else works.";

/** How often it began again: each time has a name of its own. */
let resets = 0;

/** What a training has without Python. */
class PageHost extends EngineHost implements TrainingHost {
  readonly page: string;
  readonly compiles = false;
  readonly chunk = Number.MAX_SAFE_INTEGER;
  readonly saveWeights: () => Promise<void>;
  readonly blob: Host["blob"];
  /** Of the training's Plan. */
  private readonly hash: string;

  constructor({ page, engine, blob }: Host, hash: string, save: () => Promise<void>) {
    super(engine);
    this.page = page;
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

export class ExportedTraining {
  readonly scripts: PageTraining;
  private readonly host: Host;
  private readonly state: ViewerState;
  private readonly exported: Exported;

  constructor(host: Host, exported: Exported) {
    this.host = host;
    this.state = host.state;
    this.exported = exported;
    const { state } = this;
    this.scripts = {
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
    const course = await courseOf(blob, record);
    const weak = engine.device.capabilities.precision !== "float32";
    batch(() => {
      state.training.value = record;
      if (weak) state.progress.value = { ...NO_TRAINING, phase: "refused", message: WEAK };
      else state.trainer.value = new PageHost(host, course.plan, () => this.saveWeights());
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

  private async train(): Promise<void> {
    this.change({ state: "running", until: -1 });
    await this.when(({ phase }) => phase !== "paused");
  }

  private async pause(): Promise<void> {
    this.change({ state: "paused", until: -1 });
    await this.when(({ phase }) => phase === "paused");
  }

  private async step(count = 1): Promise<void> {
    if (!Number.isInteger(count) || count < 1)
      throw new RangeError(`a number of steps is a whole one of at least 1, not ${count}`);
    await this.pause();
    const until = this.state.progress.peek().step + count;
    this.change({ state: "running", until });
    await this.when(({ phase, step }) => phase === "paused" && step >= until);
  }

  private async reset(): Promise<void> {
    const record = this.record();
    resets += 1;
    const begun = {
      ...record,
      id: `${this.host.page} ${resets}`,
      state: "paused" as const,
      until: -1,
      marks: [],
    };
    this.state.training.value = begun;
    await this.when(({ phase, step }) => phase === "paused" && step === 0);
  }

  private async weights(): Promise<Uint8Array<ArrayBuffer>> {
    this.record();
    const { weights, rest } = this.exported;
    const own = await this.host.engine.use(async (session) => {
      const shapes = new Map(session.plan.parameters.map(({ key, shape }) => [key, shape]));
      const found = [];
      for (const name of weights)
        found.push(tensorOf(name, shapes.get(name) ?? [], await session.read(name)));
      return found;
    });
    return fileOf([...own, ...(rest === "" ? [] : tensorsIn(await this.host.blob(rest)))]);
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
