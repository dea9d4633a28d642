// The training state in a page that doesn't train: the loss curve, and in all views the weights that Python received
// last.
import { effect } from "@preact/signals";
import type { ViewerState } from "../../state.ts";
import { countExamplesSeen } from "./dataset.ts";
import { LossHistory } from "./loss_history.ts";
import type { TrainingRecord } from "./records.ts";
import { NO_TRAINING, type TrainingHost } from "./state.ts";
import { NO_FAILURE } from "./step_runner.ts";
import { fetchTrainingConfig } from "./training_config.ts";

/**
 * Interval at which the page reports that it views the training. Python replies with the current state; if the owner
 * page has disconnected, this page takes over.
 */
const POLL_MS = 2000;

export class RemoteTrainingView {
  readonly id: string;
  readonly swapCount: number;
  private readonly state: ViewerState;
  private readonly host: TrainingHost;
  private readonly record: TrainingRecord;
  private readonly pollTimer: ReturnType<typeof setInterval>;
  private readonly stopFollowing: () => void;
  private shownBlobName = "";
  private closed = false;

  constructor(state: ViewerState, host: TrainingHost, record: TrainingRecord) {
    this.id = record.id;
    this.swapCount = record.swap_count;
    this.state = state;
    this.host = host;
    this.record = record;
    state.progress.value = { ...NO_TRAINING, phase: "elsewhere" };
    this.pollTimer = setInterval(() => this.poll(), POLL_MS);
    this.poll();
    this.stopFollowing = effect(() => {
      state.remoteView.value;
      this.update();
    });
  }

  close(): void {
    this.closed = true;
    clearInterval(this.pollTimer);
    this.stopFollowing();
  }

  /** Update after the Plan or the blob to show may have arrived. */
  update(): void {
    const { training, round, blob } = this.state.remoteView.peek();
    const { training: record, progress } = this.state;
    if (record.peek()?.state === "stopped") {
      clearInterval(this.pollTimer);
      progress.value = { ...progress.peek(), phase: "stopped" };
      return;
    }
    if (training !== this.id || round !== this.swapCount || blob === this.shownBlobName) return;
    const before = this.shownBlobName;
    this.shownBlobName = blob;
    this.showBlob(blob).catch(() => {
      if (this.shownBlobName === blob) this.shownBlobName = before; // retry with the next update
    });
  }

  private poll(): void {
    const report = { training: this.id, first_step: 0, held_out: [], message: "" };
    this.host.reportSteps({ ...report, ...NO_FAILURE, is_remote: true }, new Float32Array());
  }

  private async showBlob(blobName: string): Promise<void> {
    const { host, state } = this;
    const config = await fetchTrainingConfig((name) => host.blob(name), this.record);
    const bytes = await host.blob(blobName);
    if (host.planHash !== config.plan || !host.hasValues)
      throw new Error("the Plan has not loaded");
    const history = LossHistory.unpack(bytes);
    const numbers = new Float32Array(bytes.slice().buffer);
    let at = LossHistory.packedElementCount(history);
    const initial = host.initialWeights();
    await host.withSession(async (session) => {
      for (const [texture, { length }] of initial) {
        session.setWeight(texture, numbers.slice(at, at + length));
        at += length;
      }
    });
    if (this.closed) return;
    await host.refresh();
    const step = history.stepCount;
    const progress = {
      phase: "elsewhere",
      config,
      step,
      examplesSeen: countExamplesSeen(config, step),
    } as const;
    state.progress.value = { ...NO_TRAINING, ...progress, ...history.snapshot() };
  }
}
