// Follower of a training loop in Python: its loss curve, its current weights, and earlier weights as checkpoints.
import { effect, untracked } from "@preact/signals";
import { joinChunks } from "../../binary_chunks.ts";
import type { MirrorFrame } from "../../messages.ts";
import type { ViewerState } from "../../state.ts";
import { addCheckpoint, nextCheckpointStep } from "../training/checkpoints.ts";
import { LossHistory } from "../training/loss_history.ts";
import type { TrainingConfig, TrainingRecord } from "../training/records.ts";
import {
  type Checkpoint,
  NO_TRAINING,
  type TrainingActions,
  type TrainingHost,
  type WeightDataByTexture,
} from "../training/state.ts";
import { TensorWatchers } from "../training/tensor_watchers.ts";

/** Minimum interval between reads of watched tensors, and between checkpoints. */
const READ_INTERVAL_MS = 250;
/** Limit on the elements of all parameters; above it, checkpoints store no parameter pictures. */
const MAX_PICTURED_ELEMENTS = 2 ** 22;

interface WeightSnapshot extends Omit<Checkpoint, "isRestorable"> {
  /** All weights, and the Plan whose textures they belong to. */
  readonly textureRows: WeightDataByTexture;
  readonly planHash: string;
}

export class WeightFollower implements TrainingActions {
  readonly id: string;
  readonly swapCount: number;
  private readonly state: ViewerState;
  private readonly host: TrainingHost;
  private readonly watchers: TensorWatchers;
  private readonly stopFollowing: () => void;
  private record: TrainingRecord;
  private lossHistory = new LossHistory();
  /** Chunks of the weights in transit. */
  private chunks: Uint8Array<ArrayBuffer>[] = [];
  private losses = new Float32Array();
  /** The training step after which the weights were sent. */
  private readonly stepByTextureRows = new WeakMap<WeightDataByTexture, number>();
  private snapshots: readonly WeightSnapshot[] = [];
  private lastId = 0;
  private lastReadAt = Number.NEGATIVE_INFINITY;
  private readTimer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(state: ViewerState, host: TrainingHost, record: TrainingRecord) {
    this.id = record.id;
    this.swapCount = record.swap_count;
    this.state = state;
    this.host = host;
    this.record = record;
    this.watchers = new TensorWatchers(mirrorConfig([], false));
    state.progress.value = NO_TRAINING;
    state.trainingActions.value = this;
    state.weightReceiver.value = (message, data) => this.receive(message, data);
    this.publish();
    this.fetchHistory();
    this.stopFollowing = effect(() => {
      state.run.value;
      state.session.value;
      untracked(() => this.scheduleRead());
    });
  }

  update(record: TrainingRecord): void {
    if (record.state === this.record.state) return;
    this.record = record;
    this.publish();
    this.scheduleRead();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.readTimer);
    this.stopFollowing();
    this.state.weightReceiver.value = null;
    this.state.earlierWeights.value = null;
  }

  // TrainingActions, called by views

  watch(keys: readonly string[], onArrays: (arrays: Float32Array[]) => void): () => void {
    return this.watchers.add(keys, onArrays, () => this.readAfter(0));
  }

  showCheckpoint(id: number | null): void {
    const one = this.snapshots.find(
      (kept) => kept.id === id && kept.planHash === this.host.planHash,
    );
    this.state.earlierWeights.value = one?.textureRows ?? null;
    this.publish();
  }

  restoreCheckpoint(): void {
    // Only Python's own loop could restore it.
  }

  // Messages from Python

  private receive(
    message: MirrorFrame,
    data: Uint8Array<ArrayBuffer>,
  ): WeightDataByTexture | undefined {
    const { training, chunk_index, chunk_count, loss_rows, step, textures } = message;
    if (chunk_index === 0) {
      this.chunks = [];
      this.losses = new Float32Array(data.slice(0, 8 * loss_rows).buffer);
    }
    if (training !== this.id || chunk_index !== this.chunks.length) return undefined;
    this.chunks.push(data.subarray(8 * loss_rows));
    if (this.chunks.length < chunk_count) return undefined;
    const all = new Float32Array(joinChunks(this.chunks).buffer);
    this.chunks = [];
    const found = new Map(this.state.weightOverrides.peek());
    let at = 0;
    for (const texture of textures) {
      const length = this.textureLength(texture);
      found.set(texture, all.subarray(at, at + length));
      at += length;
    }
    if (at !== all.length) return undefined; // for another Plan: Python will send them again
    this.stepByTextureRows.set(found, step);
    this.appendLosses(message);
    this.publish();
    return found;
  }

  private textureLength(texture: number): number {
    const size = this.state.plan.peek()?.textures[texture];
    return size === undefined ? 0 : size.width * size.height * size.layers * 4;
  }

  private appendLosses({ first_step, held_out }: MirrorFrame): void {
    const { lossHistory, losses } = this;
    if (first_step > lossHistory.stepCount) {
      this.fetchHistory(); // this page has missed earlier steps
      return;
    }
    lossHistory.truncate(first_step);
    for (let k = 0; k < losses.length; k += 2)
      lossHistory.add(losses[k] ?? Number.NaN, losses[k + 1] ?? Number.NaN);
    for (const [step, loss, share] of held_out)
      lossHistory.heldOut.push([step, loss ?? Number.NaN, share]);
  }

  /** Request the whole loss history. */
  private fetchHistory(): void {
    this.host
      .blob(this.id)
      .then((bytes) => {
        const line = LossHistory.unpack(bytes);
        if (this.closed || line.stepCount < this.lossHistory.stepCount) return;
        this.lossHistory = line;
        this.publish();
      })
      .catch(() => undefined); // Python disconnected or busy: the next message retries
  }

  // Reads of the shown weights

  private scheduleRead(): void {
    this.readAfter(Math.max(0, this.lastReadAt + READ_INTERVAL_MS - performance.now()));
  }

  private readAfter(delayMs: number): void {
    clearTimeout(this.readTimer);
    this.readTimer = setTimeout(() => {
      this.lastReadAt = performance.now();
      this.readNow().catch(() => undefined); // lost context or other network: the next read retries
    }, delayMs);
  }

  private async readNow(): Promise<void> {
    const { host } = this;
    if (this.closed || host.planHash === "") return;
    await host.withSession(async (session) => {
      const { weightOverrides } = host;
      const step = weightOverrides && this.stepByTextureRows.get(weightOverrides);
      // Watched tensors keep the current weights while a checkpoint is shown.
      const isLooking = this.snapshots.some((one) => one.textureRows === weightOverrides);
      if (!isLooking) await this.watchers.notify(session, false);
      if (step === undefined || !this.isSnapshotDue(step)) return;
      const weights = host.initialWeights();
      const parameterArrays = new Map<string, Float32Array>();
      const names = this.parameterNames;
      if (elementCount(session.plan.parameters) <= MAX_PICTURED_ELEMENTS)
        for (const name of names) parameterArrays.set(name, await session.read(name));
      this.lastId += 1;
      const loss = this.lossHistory.losses[step - 1] ?? Number.NaN;
      const one = {
        id: this.lastId,
        step,
        loss,
        branchNumber: 0,
        parameterArrays,
        predictions: NO_PREDICTIONS,
      };
      const kept = { ...one, textureRows: weights, planHash: host.planHash };
      const chosen = this.state.selectedCheckpointId.peek();
      this.snapshots = addCheckpoint(
        this.snapshots,
        kept,
        snapshotBytes,
        ({ id }) => id === chosen,
      );
    });
    this.publish();
  }

  /** Whether to store a checkpoint: at growing intervals, and at the last step. */
  private isSnapshotDue(step: number): boolean {
    const last = this.snapshots.at(-1)?.step;
    if (last === undefined) return true;
    return step >= nextCheckpointStep(last) || (this.record.state === "stopped" && step > last);
  }

  private get parameterNames(): string[] {
    return (this.state.plan.peek()?.parameters ?? []).map(({ key }) => key);
  }

  private publish(): void {
    if (this.closed) return;
    const { lossHistory, host, state } = this;
    const { progress, earlierWeights } = state;
    const shown = earlierWeights.peek();
    const before = progress.peek();
    const isRight = lossHistory.accuracies.some(Number.isFinite);
    const { parameterNames } = this;
    const isSame =
      before.config?.has_accuracy === isRight &&
      before.config.trained_parameters.join() === parameterNames.join();
    progress.value = {
      ...before,
      ...lossHistory.snapshot(),
      phase: this.record.state === "stopped" ? "stopped" : "mirrored",
      config: isSame ? before.config : mirrorConfig(parameterNames, isRight),
      step: lossHistory.stepCount,
      checkpoints: this.snapshots.map(({ textureRows, planHash, ...one }) => ({
        ...one,
        isRestorable: planHash === host.planHash && textureRows.size > 0,
      })),
      shownCheckpointId:
        this.snapshots.find(({ textureRows }) => textureRows === shown)?.id ?? null,
    };
  }
}

const NO_PREDICTIONS = new Float32Array();

/** The training configuration for views, for a loop that Python runs. */
const mirrorConfig = (
  trained_parameters: readonly string[],
  has_accuracy: boolean,
): TrainingConfig => ({
  plan: "",
  loss: "",
  optimizer: "",
  batch_size: 0,
  example_count: 0,
  held_out_count: 0,
  start_step: 0,
  end_step: -1,
  shuffle: false,
  seed: 0,
  has_accuracy,
  learning_rates: "",
  betas: [],
  columns: [],
  inputs: {},
  held_out_inputs: {},
  loss_key: "",
  held_out_key: "",
  prediction_key: "",
  update_ratios_key: "",
  dead_units_key: "",
  trained_parameters,
  relu_layers: [],
  gradients: {},
  state_names: [],
  frozen: [],
});

const elementCount = (parameters: readonly { readonly shape: readonly number[] }[]): number =>
  parameters.reduce(
    (sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  );

const snapshotBytes = ({ textureRows, parameterArrays }: WeightSnapshot): number =>
  [...textureRows.values(), ...parameterArrays.values()].reduce(
    (sum, { byteLength }) => sum + byteLength,
    0,
  );
