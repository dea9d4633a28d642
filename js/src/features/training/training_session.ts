// What a training does with the session of its Plan. Whatever a lost context cut short gives undefined.
import type { Session } from "../../plan/runtime.ts";
import type { PlanHeader } from "../../plan/schema.ts";
import type { Kept, Tensors } from "./checkpoints.ts";
import type { Given } from "./dataset.ts";
import { type Fixed, fixedOf } from "./fixed_examples.ts";
import type { TrainingHost } from "./state.ts";
import { evaluated, predicted, runStep, type StepAsked, type StepGave } from "./steps.ts";
import { fits, put, stateOf } from "./tensors.ts";
import type { Watches } from "./watches.ts";

const LOST_MS = 200;

export interface Stepped extends StepGave {
  /** All numbers are finite: the step counts. */
  readonly isSound: boolean;
  /** Where they were asked for, and the Plan has them. */
  readonly ratios: Float32Array | null;
  readonly dead: Float32Array | null;
}

export class Work {
  fixed: Fixed | null = null;
  private readonly host: TrainingHost;
  private readonly given: Given;
  private readonly watches: Watches;
  private plan: PlanHeader | undefined;
  /** Of the context, as of the last state that was put in. */
  private lost: number;

  constructor(host: TrainingHost, given: Given, watches: Watches) {
    this.host = host;
    this.given = given;
    this.watches = watches;
    this.lost = host.losses;
  }

  /** The state is that of the Plan. */
  async begin(): Promise<void> {
    const initial = this.host.initial();
    await this.host.use(async (session) => {
      this.plan = session.plan;
      for (const [texture, rows] of initial) session.setWeight(texture, rows);
    });
    const { course, rows, heldOutRows } = this.given;
    if (this.plan !== undefined) this.fixed = fixedOf(this.plan, course, rows, heldOutRows);
  }

  /** The state went with the context: see `revive`. */
  get isLost(): boolean {
    return this.host.losses !== this.lost;
  }

  fits(tensors: Tensors): boolean {
    return this.plan !== undefined && fits(this.plan, tensors, this.given.course.trained);
  }

  put(tensors: Tensors): Promise<void> {
    const initial = this.host.initial();
    return this.host.use(async (session) => put(session, tensors, initial));
  }

  state(): Promise<Tensors> {
    return this.host.use(stateOf);
  }

  /** A step, committed where it is sound. */
  step(asked: StepAsked): Promise<Stepped | undefined> {
    const { given } = this;
    return this.use(async (session) => {
      const gave = await runStep(session, given, asked);
      const isSound = Number.isFinite(gave.loss) && Number.isFinite(gave.check);
      let ratios: Float32Array | null = null;
      let dead: Float32Array | null = null;
      if (asked.measured) {
        await this.watches.learn(session);
        if (given.course.ratios !== "") ratios = await session.read(given.course.ratios);
        if (given.course.dead !== "") dead = await session.read(given.course.dead);
      }
      if (isSound && !this.isLost) session.commit();
      return { ...gave, isSound, ratios, dead };
    });
  }

  /** The loss of all that is held out, and its share of right answers. */
  async evaluate(): Promise<readonly [loss: number, share: number] | undefined> {
    const { course } = this.given;
    let [loss, share] = [0, 0];
    for (let first = 0; first < course.held_out; first += course.batch) {
      const count = Math.min(course.batch, course.held_out - first);
      const found = await this.use((session) => evaluated(session, this.given, first, count));
      if (found === undefined) return undefined;
      loss += (found[0] * count) / course.held_out;
      share += (found[1] * count) / course.held_out;
    }
    return [loss, share];
  }

  /** What a checkpoint keeps of now. */
  kept(): Promise<Pick<Kept, "tensors" | "arrays" | "predictions"> | undefined> {
    const { given } = this;
    return this.use(async (session) => {
      const tensors = await stateOf(session);
      const arrays = new Map<string, Float32Array>();
      for (const name of given.course.trained) arrays.set(name, await session.read(name));
      return { tensors, arrays, predictions: await predicted(session, given, this.fixed) };
    });
  }

  /** All that changes, as Python takes it. */
  async saved(): Promise<Float32Array<ArrayBuffer> | undefined> {
    const parts = await this.use(async (session) => {
      const found: Float32Array[] = [];
      for (const name of this.given.course.state) found.push(await session.read(name));
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
    await unlessLost(() => this.host.refresh());
  }

  /** Gives watches what they want; the output for the fixed examples. */
  seen(stepped: boolean): Promise<Float32Array | undefined> {
    return this.use(async (session) => {
      await this.watches.give(session, stepped);
      return predicted(session, this.given, this.fixed);
    });
  }

  async give(stepped: boolean): Promise<void> {
    await this.use((session) => this.watches.give(session, stepped));
  }

  /** Waits until the network is there again, with this state; false where `given` has become useless meanwhile. */
  async revive(tensors: Tensors, isUseless: () => boolean): Promise<boolean> {
    const { host, given } = this;
    while (!isUseless()) {
      // A run fails before the page is told of the loss, and again until all is there.
      await new Promise((resolve) => setTimeout(resolve, LOST_MS));
      if (host.plan !== given.course.plan || !host.hasValues) continue;
      this.lost = host.losses;
      const isPut = await unlessLost(async () => {
        await this.put(tensors);
        await host.use((session) => predicted(session, given, this.fixed));
        return true;
      });
      if (isPut && !this.isLost) return true;
    }
    return false;
  }

  private async use<T>(work: (session: Session) => Promise<T>): Promise<T | undefined> {
    const found = await unlessLost(() => this.host.use(work));
    return this.isLost ? undefined : found;
  }
}

async function unlessLost<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && error.name === "ContextLostError") return undefined;
    throw error;
  }
}
