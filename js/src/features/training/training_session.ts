// The training's use of its Plan's session. Results are undefined if a context loss interrupts the work.
import type { Session } from "../../plan/runtime.ts";
import type { PlanHeader } from "../../plan/schema.ts";
import type { PackedTensors, StoredCheckpoint } from "./checkpoints.ts";
import type { Dataset } from "./dataset.ts";
import { type FixedExamples, selectFixedExamples } from "./fixed_examples.ts";
import type { TrainingHost } from "./state.ts";
import {
  evaluateBatch,
  predictFixedExamples,
  runStep,
  type StepRequest,
  type StepResult,
} from "./step_runner.ts";
import type { TensorWatchers } from "./tensor_watchers.ts";
import { isStateCompatible, loadTensors, readTensors } from "./trained_state.ts";

const RETRY_MS = 200;

export interface CheckedStep extends StepResult {
  /** Whether all numbers are finite; only then does the step count. */
  readonly isCommitted: boolean;
  /** Set if they were requested and the Plan has them. */
  readonly updateRatios: Float32Array | null;
  readonly deadUnits: Float32Array | null;
}

export class TrainingSession {
  fixedExamples: FixedExamples | null = null;
  private readonly host: TrainingHost;
  private readonly dataset: Dataset;
  private readonly watchers: TensorWatchers;
  private plan: PlanHeader | undefined;
  /** The host's context losses when the state was last loaded. */
  private contextLossesAtLoad: number;

  constructor(host: TrainingHost, dataset: Dataset, watches: TensorWatchers) {
    this.host = host;
    this.dataset = dataset;
    this.watchers = watches;
    this.contextLossesAtLoad = host.contextLossCount;
  }

  /** Start with the Plan's initial state. */
  async start(): Promise<void> {
    const initial = this.host.initialWeights();
    await this.host.withSession(async (session) => {
      this.plan = session.plan;
      for (const [texture, rows] of initial) session.setWeight(texture, rows);
    });
    const { config, trainRows, heldOutRows } = this.dataset;
    if (this.plan !== undefined)
      this.fixedExamples = selectFixedExamples(this.plan, config, trainRows, heldOutRows);
  }

  /** Whether the state was lost with the context: see `recoverContext`. */
  get isContextLost(): boolean {
    return this.host.contextLossCount !== this.contextLossesAtLoad;
  }

  isCompatible(tensors: PackedTensors): boolean {
    return (
      this.plan !== undefined &&
      isStateCompatible(this.plan, tensors, this.dataset.config.trained_parameters)
    );
  }

  load(tensors: PackedTensors): Promise<void> {
    const initial = this.host.initialWeights();
    return this.host.withSession(async (session) => loadTensors(session, tensors, initial));
  }

  read(): Promise<PackedTensors> {
    return this.host.withSession(readTensors);
  }

  /** Compute a step; commit it if all numbers are finite. */
  step(request: StepRequest): Promise<CheckedStep | undefined> {
    const { dataset } = this;
    return this.withSession(async (session) => {
      const result = await runStep(session, dataset, request);
      const isSound = Number.isFinite(result.loss) && Number.isFinite(result.finiteCheck);
      let updateRatios: Float32Array | null = null;
      let deadUnits: Float32Array | null = null;
      if (request.needsMeasurements) {
        await this.watchers.captureGradients(session);
        if (dataset.config.update_ratios_key !== "")
          updateRatios = await session.read(dataset.config.update_ratios_key);
        if (dataset.config.dead_units_key !== "")
          deadUnits = await session.read(dataset.config.dead_units_key);
      }
      if (isSound && !this.isContextLost) session.commit();
      return { ...result, isCommitted: isSound, updateRatios, deadUnits };
    });
  }

  /** The loss and accuracy over all held-out examples. */
  async evaluate(): Promise<readonly [loss: number, share: number] | undefined> {
    const { config } = this.dataset;
    let [loss, accuracy] = [0, 0];
    for (let first = 0; first < config.held_out_count; first += config.batch_size) {
      const count = Math.min(config.batch_size, config.held_out_count - first);
      const found = await this.withSession((session) =>
        evaluateBatch(session, this.dataset, first, count),
      );
      if (found === undefined) return undefined;
      loss += (found[0] * count) / config.held_out_count;
      accuracy += (found[1] * count) / config.held_out_count;
    }
    return [loss, accuracy];
  }

  /** Read the contents of a checkpoint of the current state. */
  readCheckpoint(): Promise<
    Pick<StoredCheckpoint, "tensors" | "parameterArrays" | "predictions"> | undefined
  > {
    const { dataset } = this;
    return this.withSession(async (session) => {
      const tensors = await readTensors(session);
      const parameterArrays = new Map<string, Float32Array>();
      for (const name of dataset.config.trained_parameters)
        parameterArrays.set(name, await session.read(name));
      return {
        tensors,
        parameterArrays,
        predictions: await predictFixedExamples(session, dataset, this.fixedExamples),
      };
    });
  }

  /** Serialize the training state in the order of the config's `state_names`. */
  async serialize(): Promise<Float32Array<ArrayBuffer> | undefined> {
    const parts = await this.withSession(async (session) => {
      const found: Float32Array[] = [];
      for (const name of this.dataset.config.state_names) found.push(await session.read(name));
      return found;
    });
    if (parts === undefined) return undefined;
    const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  /** Let views show the network with the loaded weights. */
  async refresh(): Promise<void> {
    await ignoreContextLoss(() => this.host.refresh());
  }

  /** Notify watchers, and compute the output for the fixed examples. */
  refreshPredictions(hasStepped: boolean): Promise<Float32Array | undefined> {
    return this.withSession(async (session) => {
      await this.watchers.notify(session, hasStepped);
      return predictFixedExamples(session, this.dataset, this.fixedExamples);
    });
  }

  async updateWatchers(hasStepped: boolean): Promise<void> {
    await this.withSession((session) => this.watchers.notify(session, hasStepped));
  }

  /** Wait until the network is restored, with this state; return false once `isUseless()` is true. */
  async recoverContext(tensors: PackedTensors, isCancelled: () => boolean): Promise<boolean> {
    const { host, dataset } = this;
    while (!isCancelled()) {
      // Runs fail before the page receives the loss event, and until everything is rebuilt: retry.
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      if (host.planHash !== dataset.config.plan || !host.hasValues) continue;
      this.contextLossesAtLoad = host.contextLossCount;
      const isLoaded = await ignoreContextLoss(async () => {
        await this.load(tensors);
        await host.withSession((session) =>
          predictFixedExamples(session, dataset, this.fixedExamples),
        );
        return true;
      });
      if (isLoaded && !this.isContextLost) return true;
    }
    return false;
  }

  private async withSession<T>(work: (session: Session) => Promise<T>): Promise<T | undefined> {
    const found = await ignoreContextLoss(() => this.host.withSession(work));
    return this.isContextLost ? undefined : found;
  }
}

async function ignoreContextLoss<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && error.name === "ContextLostError") return undefined;
    throw error;
  }
}
