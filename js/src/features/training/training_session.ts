// What a training does with the session of its Plan. Whatever a lost context cut short gives undefined.
import type { Session } from "../../plan/runtime.ts";
import type { PlanHeader } from "../../plan/schema.ts";
import type { StoredCheckpoint, Tensors } from "./checkpoints.ts";
import type { Dataset } from "./dataset.ts";
import { type FixedExamples, selectFixedExamples } from "./fixed_examples.ts";
import type { TrainingHost } from "./state.ts";
import {
  evaluateBatch,
  predictFixed,
  runStep,
  type StepRequest,
  type StepResult,
} from "./step_runner.ts";
import type { TensorWatchers } from "./tensor_watchers.ts";
import { fits, loadTensors, readTensors } from "./trained_state.ts";

const RETRY_MS = 200;

export interface CheckedStep extends StepResult {
  /** All numbers are finite: the step counts. */
  readonly isCommitted: boolean;
  /** Where they were asked for, and the Plan has them. */
  readonly updateRatios: Float32Array | null;
  readonly deadUnits: Float32Array | null;
}

export class TrainingSession {
  fixedExamples: FixedExamples | null = null;
  private readonly host: TrainingHost;
  private readonly dataset: Dataset;
  private readonly watchers: TensorWatchers;
  private plan: PlanHeader | undefined;
  /** Of the context, as of the last state that was put in. */
  private knownLosses: number;

  constructor(host: TrainingHost, given: Dataset, watches: TensorWatchers) {
    this.host = host;
    this.dataset = given;
    this.watchers = watches;
    this.knownLosses = host.contextLosses;
  }

  /** The state is that of the Plan. */
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

  /** The state went with the context: see `recoverContext`. */
  get isContextLost(): boolean {
    return this.host.contextLosses !== this.knownLosses;
  }

  fits(tensors: Tensors): boolean {
    return (
      this.plan !== undefined && fits(this.plan, tensors, this.dataset.config.trained_parameters)
    );
  }

  load(tensors: Tensors): Promise<void> {
    const initial = this.host.initialWeights();
    return this.host.withSession(async (session) => loadTensors(session, tensors, initial));
  }

  read(): Promise<Tensors> {
    return this.host.withSession(readTensors);
  }

  /** A step, committed where it is sound. */
  step(asked: StepRequest): Promise<CheckedStep | undefined> {
    const { dataset } = this;
    return this.withSession(async (session) => {
      const gave = await runStep(session, dataset, asked);
      const isSound = Number.isFinite(gave.loss) && Number.isFinite(gave.finiteCheck);
      let updateRatios: Float32Array | null = null;
      let deadUnits: Float32Array | null = null;
      if (asked.needsMeasures) {
        await this.watchers.captureGradients(session);
        if (dataset.config.update_ratios_key !== "")
          updateRatios = await session.read(dataset.config.update_ratios_key);
        if (dataset.config.dead_units_key !== "")
          deadUnits = await session.read(dataset.config.dead_units_key);
      }
      if (isSound && !this.isContextLost) session.commit();
      return { ...gave, isCommitted: isSound, updateRatios, deadUnits };
    });
  }

  /** The loss of all that is held out, and its share of right answers. */
  async evaluate(): Promise<readonly [loss: number, share: number] | undefined> {
    const { config } = this.dataset;
    let [loss, share] = [0, 0];
    for (let first = 0; first < config.held_out_count; first += config.batch_size) {
      const count = Math.min(config.batch_size, config.held_out_count - first);
      const found = await this.withSession((session) =>
        evaluateBatch(session, this.dataset, first, count),
      );
      if (found === undefined) return undefined;
      loss += (found[0] * count) / config.held_out_count;
      share += (found[1] * count) / config.held_out_count;
    }
    return [loss, share];
  }

  /** What a checkpoint keeps of now. */
  readCheckpoint(): Promise<
    Pick<StoredCheckpoint, "tensors" | "arrays" | "predictions"> | undefined
  > {
    const { dataset } = this;
    return this.withSession(async (session) => {
      const tensors = await readTensors(session);
      const arrays = new Map<string, Float32Array>();
      for (const name of dataset.config.trained_parameters)
        arrays.set(name, await session.read(name));
      return {
        tensors,
        arrays,
        predictions: await predictFixed(session, dataset, this.fixedExamples),
      };
    });
  }

  /** All that changes, as Python takes it. */
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

  /** Views show the network with the weights that are put in. */
  async refresh(): Promise<void> {
    await ignoreContextLoss(() => this.host.refresh());
  }

  /** Gives watches what they want; the output for the fixed examples. */
  refreshPredictions(stepped: boolean): Promise<Float32Array | undefined> {
    return this.withSession(async (session) => {
      await this.watchers.notify(session, stepped);
      return predictFixed(session, this.dataset, this.fixedExamples);
    });
  }

  async updateWatchers(stepped: boolean): Promise<void> {
    await this.withSession((session) => this.watchers.notify(session, stepped));
  }

  /** Waits until the network is there again, with this state; false where `given` has become useless meanwhile. */
  async recoverContext(tensors: Tensors, isUseless: () => boolean): Promise<boolean> {
    const { host, dataset } = this;
    while (!isUseless()) {
      // A run fails before the page is told of the loss, and again until all is there.
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      if (host.planHash !== dataset.config.plan || !host.hasValues) continue;
      this.knownLosses = host.contextLosses;
      const isPut = await ignoreContextLoss(async () => {
        await this.load(tensors);
        await host.withSession((session) => predictFixed(session, dataset, this.fixedExamples));
        return true;
      });
      if (isPut && !this.isContextLost) return true;
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
