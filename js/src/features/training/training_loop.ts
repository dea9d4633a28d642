// Training loop of the page: steps between frames, with periodic evaluation on the held-out examples.

import { splitChunks } from "../../binary_chunks.ts";
import type { StepReport } from "../../messages.ts";
import { nextCheckpointStep, type PackedTensors } from "./checkpoints.ts";
import { countExamplesSeen, type Dataset } from "./dataset.ts";
import { whenVisible } from "./page_visibility.ts";
import type { TrainingRecord } from "./records.ts";
import type { TrainingActions, TrainingHost, TrainingProgress } from "./state.ts";
import { NO_FAILURE, type StepResult } from "./step_runner.ts";
import { TensorWatchers } from "./tensor_watchers.ts";
import type { TrainingHistory } from "./training_history.ts";
import { TrainingSession } from "./training_session.ts";

/** Interval of view updates and reports to Python, and the largest share of time for view updates. */
const REFRESH_INTERVAL_MS = 250;
const MAX_VIEW_TIME_FRACTION = 0.25;
/** Interval of step count updates in the views. */
const STEP_COUNT_INTERVAL_MS = 100;
/** Largest shares of time for evaluation and for storing checkpoints. */
const MAX_EVALUATION_TIME_FRACTION = 0.1;
const MAX_SAVING_TIME_FRACTION = 0.05;
/** Minimum interval between training states sent to Python, apart from those at each pause and at the end. */
const SAVE_INTERVAL_MS = 10_000;
/** Interval of heartbeats while paused: another page takes over if they stop. */
const HEARTBEAT_MS = 1500;

export interface LoopEvents {
  /** The training's progress has changed. */
  onProgress(part: Partial<TrainingProgress>): void;
  /** The loop has paused or stopped without a request. */
  onState(state: TrainingRecord["state"]): void;
  /** Whether any of the training's views is visible. */
  isVisible(): boolean;
  /** The id of the checkpoint that the reader has selected; null if none. */
  selectedCheckpointId(): number | null;
}

export class TrainingLoop implements TrainingActions {
  private readonly host: TrainingHost;
  private readonly dataset: Dataset;
  private readonly history: TrainingHistory;
  private readonly events: LoopEvents;
  private readonly watchers: TensorWatchers;
  private readonly session: TrainingSession;
  private record: TrainingRecord;
  private step: number;
  private examplesSeen: number;
  /** Number of steps reported to Python. */
  private reportedStepCount: number;
  private reportedHeldOutCount = 0;
  /** The current weights while those of a checkpoint are shown. */
  private currentWeights: PackedTensors | undefined;
  /** The tail of the task queue: tasks run one after the other. */
  private queueTail: Promise<void> = Promise.resolve();
  private isStarted = false;
  private isRunning = false;
  private closed = false;
  /** Whether the loop has paused by itself and not reported it yet. */
  private isStateUnreported = false;
  private readonly heartbeat: ReturnType<typeof setInterval>;
  private resolveChange: () => void = () => undefined;
  private readonly timeSpentMs = { all: 0, evaluating: 0, saving: 0 };
  private stepMs = 0;
  private nextReportAt = 0;
  private nextViewAt = 0;
  private lastCountAt = 0;
  /** The last step for which views received update ratios and dead units. */
  private lastMeasuredStep = -1;
  private savedAt = 0;

  /** `history` may contain steps of earlier Plans of this training. */
  constructor(
    host: TrainingHost,
    record: TrainingRecord,
    dataset: Dataset,
    history: TrainingHistory,
    events: LoopEvents,
  ) {
    this.host = host;
    this.record = record;
    this.dataset = dataset;
    this.history = history;
    this.events = events;
    this.watchers = new TensorWatchers(dataset.config);
    this.session = new TrainingSession(host, dataset, this.watchers);
    this.heartbeat = setInterval(() => {
      if (this.isStarted && !this.isRunning) this.report();
    }, HEARTBEAT_MS);
    this.step = record.start_step;
    history.lossHistory.truncate(record.start_step);
    this.reportedStepCount = history.lossHistory.stepCount;
    this.examplesSeen =
      history.lastCheckpoint?.examplesSeen ?? countExamplesSeen(dataset.config, record.start_step);
  }

  /** Start with the Plan's weights, and enter the record's state. */
  async start(): Promise<void> {
    await this.session.start();
    await this.evaluate();
    await this.storeCheckpoint();
    this.report();
    this.publishCurve();
    this.isStarted = true;
    if (this.record.state === "running") this.run();
    else this.enqueue(() => this.sendStateAtRest());
  }

  /** Apply a new record from Python or the views. */
  update(record: TrainingRecord): void {
    const before = this.record;
    this.record = record;
    this.isStateUnreported = false;
    this.resolveChange();
    if (!this.isStarted) return;
    if (record.state === "running") this.run();
    else if (!this.isRunning && record.state !== before.state)
      this.enqueue(() => this.sendStateAtRest());
  }

  /** The network has been run again. If the context was lost while the loop was idle, restore the weights. */
  onRerun(): void {
    if (!this.isStarted || this.isRunning || !this.session.isContextLost) return;
    this.enqueue(async () => {
      if (this.isRunning || !this.session.isContextLost) return;
      await this.recoverContext();
      this.events.onProgress({ shownCheckpointId: null });
      await this.refreshViews();
    });
  }

  close(): void {
    this.closed = true;
    clearInterval(this.heartbeat);
    this.resolveChange();
  }

  // TrainingActions, called by views

  watch(keys: readonly string[], onArrays: (arrays: Float32Array[]) => void): () => void {
    return this.watchers.add(keys, onArrays, () => this.updateWatchers());
  }

  showCheckpoint(id: number | null): void {
    this.enqueue(async () => {
      if (this.isRunning || this.record.state !== "paused") return;
      const kept = id === null ? undefined : this.history.get(id);
      if (kept === undefined) await this.restoreCurrentWeights();
      else if (this.session.isCompatible(kept.tensors)) {
        this.currentWeights ??= await this.session.read();
        await this.session.load(kept.tensors);
        this.events.onProgress({ shownCheckpointId: kept.id });
      }
      await this.refreshViews();
    });
  }

  restoreCheckpoint(id: number, keepBranch: boolean): void {
    if (this.record.state === "running") this.setState("paused");
    this.enqueue(async () => {
      const to = this.history.get(id);
      if (
        to === undefined ||
        !this.session.isCompatible(to.tensors) ||
        this.record.state === "stopped"
      )
        return;
      this.currentWeights = undefined;
      this.reportedStepCount = Math.min(
        this.reportedStepCount,
        this.history.restore(to, keepBranch),
      );
      this.resumeFrom(to.step, to.examplesSeen);
      this.watchers.clear();
      await this.session.load(to.tensors);
      this.events.onProgress({ shownCheckpointId: null, updateRatios: null, deadUnits: null });
      this.publishCheckpoints();
      await this.sendStateAtRest();
    });
  }

  // Task queue

  private enqueue(work: () => Promise<void>): void {
    this.queueTail = this.queueTail
      .then(() => (this.closed ? undefined : work()))
      .catch((error: unknown) => {
        if (!this.closed) this.fail(error);
      });
  }

  private get shouldRun(): boolean {
    return !this.closed && this.record.state === "running";
  }

  /** Pause or stop without a request; reported once all pending work is done. */
  private setState(state: TrainingRecord["state"]): void {
    this.record = { ...this.record, state, pause_at: -1 };
    this.isStateUnreported = state !== "stopped";
    this.resolveChange();
  }

  private reportState(): void {
    if (!this.isStateUnreported) return;
    this.isStateUnreported = false;
    if (this.record.state === "paused") this.report("", { ...NO_FAILURE, paused: true });
    this.events.onState(this.record.state);
  }

  private run(): void {
    if (this.isRunning) return;
    this.isRunning = true;
    this.enqueue(async () => {
      try {
        await this.restoreCurrentWeights();
        while (this.shouldRun) await this.advance();
      } finally {
        this.isRunning = false;
      }
      if (!this.closed) await this.sendStateAtRest();
    });
  }

  private async advance(): Promise<void> {
    const { end_step } = this.dataset.config;
    if (document.hidden) {
      this.events.onProgress({ phase: "hidden" });
      await Promise.race([whenVisible(), this.waitForChange()]);
    } else if (end_step >= 0 && this.step >= end_step) this.setState("stopped");
    else if (this.record.pause_at >= 0 && this.step >= this.record.pause_at)
      this.setState("paused");
    else {
      this.events.onProgress({ phase: "running" });
      await this.trainStep();
      await this.workBetweenSteps();
    }
  }

  /** Resolve at the next change of the record or the state. */
  private waitForChange(): Promise<void> {
    return new Promise((resolve) => {
      this.resolveChange = resolve;
    });
  }

  /** Train one step. After a lost context, resume from the last checkpoint. */
  private async trainStep(): Promise<void> {
    const start = performance.now();
    const isLast = [this.dataset.config.end_step, this.record.pause_at].includes(this.step + 1);
    const needsMeasurements = isLast || (start >= this.nextViewAt && this.events.isVisible());
    const { lr, noise: inputNoiseStd } = this.record;
    const done = this.session.isContextLost
      ? undefined
      : await this.session.step({ step: this.step, lr, inputNoiseStd, needsMeasurements });
    if (done === undefined) {
      await this.recoverContext();
      return;
    }
    if (needsMeasurements) {
      this.lastMeasuredStep = this.step;
      this.events.onProgress({ updateRatios: done.updateRatios, deadUnits: done.deadUnits });
    }
    if (!done.isCommitted) {
      this.stopOnNaN(done);
      return;
    }
    this.step += 1;
    this.examplesSeen += done.exampleIndices.length;
    this.history.lossHistory.add(done.loss, done.accuracy);
    const ms = performance.now() - start;
    this.timeSpentMs.all += ms;
    this.stepMs = this.stepMs === 0 ? ms : 0.9 * this.stepMs + 0.1 * ms;
    if (start - this.lastCountAt < STEP_COUNT_INTERVAL_MS) return;
    this.lastCountAt = start;
    this.publishCounts();
  }

  /** Work between steps: evaluation, checkpoints, reports and view updates. */
  private async workBetweenSteps(): Promise<void> {
    const { timeSpentMs, step } = this;
    const now = performance.now();
    if (
      this.dataset.heldOutRows.length > 0 &&
      timeSpentMs.evaluating < MAX_EVALUATION_TIME_FRACTION * timeSpentMs.all
    ) {
      await this.evaluate();
      timeSpentMs.evaluating += performance.now() - now;
    }
    const isDue = step >= nextCheckpointStep(this.history.lastCheckpoint?.step ?? 0);
    if (isDue && timeSpentMs.saving < MAX_SAVING_TIME_FRACTION * timeSpentMs.all)
      await this.measureSavingTime(() => this.ensureCheckpointStored());
    if (now >= this.nextReportAt) {
      this.nextReportAt = now + REFRESH_INTERVAL_MS;
      this.report();
      this.publishCurve();
    }
    if (now >= this.nextViewAt && this.events.isVisible()) {
      const start = performance.now();
      await this.refreshViews();
      const end = performance.now();
      this.nextViewAt = end + Math.max(REFRESH_INTERVAL_MS, (end - start) / MAX_VIEW_TIME_FRACTION);
    }
    if (
      now - this.savedAt > SAVE_INTERVAL_MS &&
      timeSpentMs.saving < MAX_SAVING_TIME_FRACTION * timeSpentMs.all
    )
      await this.measureSavingTime(() => this.sendWeights(false));
  }

  private async measureSavingTime(save: () => Promise<unknown>): Promise<void> {
    const start = performance.now();
    await save();
    this.timeSpentMs.saving += performance.now() - start;
  }

  private get hasStepped(): boolean {
    return this.step > this.record.start_step;
  }

  /** Update the views to the current network. */
  private async refreshViews(): Promise<void> {
    await this.session.refresh();
    if (this.currentWeights !== undefined) return; // watched tensors keep the current weights
    const predictions = await this.session.refreshPredictions(this.hasStepped);
    if (predictions !== undefined && this.session.fixedExamples !== null)
      this.events.onProgress({ predictions });
  }

  /** The loop has stopped: update views that were hidden to the last step. */
  private async refreshStaleViews(): Promise<void> {
    if (!this.events.isVisible() && this.lastMeasuredStep < this.step - 1) {
      this.watchers.clear();
      this.events.onProgress({ updateRatios: null, deadUnits: null });
    }
    await this.refreshViews();
  }

  private updateWatchers(): void {
    if (this.currentWeights !== undefined) return; // until current weights return
    this.session.updateWatchers(this.hasStepped).catch((error: unknown) => {
      if (!this.closed && this.host.planHash === this.dataset.config.plan) this.fail(error);
    });
  }

  /** Compute the loss over all held-out examples with the current weights. */
  private async evaluate(): Promise<void> {
    const { heldOut } = this.history.lossHistory;
    if (this.dataset.heldOutRows.length === 0 || heldOut.at(-1)?.[0] === this.step) return;
    const found = await this.session.evaluate();
    if (found === undefined) return; // context lost: the next step restores the last checkpoint
    heldOut.push([this.step, found[0], this.dataset.config.has_accuracy ? found[1] : null]);
  }

  /** Store the current state as a checkpoint. */
  private async storeCheckpoint(): Promise<void> {
    const { step, examplesSeen } = this;
    const { losses, heldOut } = this.history.lossHistory;
    const kept = await this.session.readCheckpoint();
    if (kept === undefined) return;
    const held = heldOut.findLast(([at]) => at === step)?.[1];
    const loss = held ?? losses[step - 1] ?? Number.NaN;
    this.history.add({ ...kept, step, examplesSeen, loss }, this.events.selectedCheckpointId());
    this.publishCheckpoints();
  }

  private async ensureCheckpointStored(): Promise<void> {
    await this.evaluate();
    if (this.history.lastCheckpoint?.step !== this.step) await this.storeCheckpoint();
  }

  /** On pause, handover or end: send the current state to Python. */
  private async sendStateAtRest(): Promise<void> {
    if (this.record.state === "running") return;
    if (this.record.state === "stopped") {
      await this.sendFinalState();
      return;
    }
    await this.restoreCurrentWeights();
    await this.ensureCheckpointStored();
    this.report();
    this.publishCurve();
    await this.sendWeights(false);
    await this.refreshStaleViews();
    const isHanded = this.record.state === "handing";
    this.events.onProgress({ phase: isHanded ? "waiting" : "paused" });
    this.reportState();
  }

  private async sendFinalState(): Promise<void> {
    try {
      await this.restoreCurrentWeights();
      await this.ensureCheckpointStored();
      this.report();
      this.publishCurve();
      // Before Python receives the weights, as it may then show another Plan.
      await this.refreshStaleViews();
      if (!(await this.sendWeights(true))) {
        await this.recoverContext();
        await this.sendWeights(true);
      }
    } finally {
      clearInterval(this.heartbeat);
      this.closed = this.host.canRecompile; // without Python, only this page has the trained weights
      this.events.onProgress({ phase: "stopped" });
      this.events.onState("stopped");
    }
  }

  /** The step's result contains NaN and is not committed. */
  private stopOnNaN({ loss, exampleIndices, scalars }: StepResult): void {
    const what = Number.isFinite(loss) ? "a parameter" : "the loss";
    const message =
      `training stopped at step ${this.step}: ${what} became NaN or infinite. ` +
      "The weights are those of the step before. Lower the learning rate";
    this.events.onProgress({ message });
    this.report(message, {
      ...NO_FAILURE,
      failed_examples: [...exampleIndices],
      step_scalars: Object.fromEntries(scalars),
    });
    this.setState("stopped");
  }

  private fail(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.report(`training stopped at step ${this.step}: ${message}`);
    this.setState("paused");
    this.reportState();
    this.events.onProgress({ phase: "failed", message });
  }

  /** Send the current state to Python; returns false if the context is lost. */
  private async sendWeights(isLast: boolean): Promise<boolean> {
    const { step } = this;
    const state = await this.session.serialize();
    if (state === undefined) return false;
    this.savedAt = performance.now();
    const parts = splitChunks(state.buffer, this.host.maxChunkBytes);
    const saved = {
      training: this.record.id,
      step,
      chunk_count: parts.length,
      total_bytes: state.byteLength,
      is_last: isLast,
      awaits_swap: this.record.state === "handing",
    };
    for (const [index, data] of parts.entries())
      this.host.sendWeights({ ...saved, chunk_index: index }, data);
    return true;
  }

  /** Load the current weights again. */
  private async restoreCurrentWeights(): Promise<void> {
    const { currentWeights } = this;
    if (currentWeights === undefined) return;
    this.currentWeights = undefined;
    await this.session.load(currentWeights);
    this.events.onProgress({ shownCheckpointId: null });
  }

  /** After a lost context, wait for the network and restore the last checkpoint. */
  private async recoverContext(): Promise<void> {
    const kept = this.history.lastCheckpoint;
    if (kept === undefined || !(await this.session.recoverContext(kept.tensors, () => this.closed)))
      return;
    const gone = this.step - kept.step;
    this.currentWeights = undefined;
    this.history.lossHistory.truncate(kept.step);
    this.reportedStepCount = Math.min(this.reportedStepCount, kept.step);
    this.resumeFrom(kept.step, kept.examplesSeen);
    const goesOn =
      this.record.state === "stopped" ? "the weights are those of" : "training continues from";
    const lost = gone === 1 ? "the step after it is lost" : `the ${gone} steps after it are lost`;
    const message = `the browser reset the GPU: ${goesOn} step ${kept.step}${gone > 0 ? `; ${lost}` : ""}`;
    this.events.onProgress({ message });
    this.report(message);
    this.publishCurve();
  }

  private resumeFrom(step: number, exampleCount: number): void {
    this.step = step;
    this.examplesSeen = exampleCount;
    this.reportedHeldOutCount = 0;
  }

  // Reports to Python and to the views

  private report(
    message = "",
    failure: Pick<StepReport, keyof typeof NO_FAILURE> = NO_FAILURE,
  ): void {
    const { reportedStepCount, reportedHeldOutCount } = this;
    const { losses, heldOut } = this.history.lossHistory;
    const rows = this.history.lossHistory.packFrom(reportedStepCount);
    this.reportedStepCount = losses.length;
    this.reportedHeldOutCount = heldOut.length;
    const held_out = heldOut.slice(reportedHeldOutCount);
    this.host.reportSteps(
      { training: this.record.id, first_step: reportedStepCount, held_out, message, ...failure },
      rows,
    );
  }

  private publishCounts(): void {
    this.events.onProgress({
      step: this.step,
      examplesSeen: this.examplesSeen,
      stepMs: this.stepMs,
    });
  }

  private publishCurve(): void {
    this.publishCounts();
    const fixedExamples = this.session.fixedExamples?.examples ?? null;
    this.events.onProgress({ ...this.history.lossHistory.snapshot(), fixedExamples });
  }

  private publishCheckpoints(): void {
    const { checkpoints, branches } = this.history;
    const found = checkpoints.map((kept) => ({
      ...kept,
      isRestorable: this.session.isCompatible(kept.tensors),
    }));
    this.events.onProgress({ checkpoints: found, branches });
  }
}
