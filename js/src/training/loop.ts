// Trains in the page: step after step between frames, with what is held out looked at now and then.
import type { Session } from "../gl/types.ts";
import type { TrainingHost, TrainingProgress } from "../state/training.ts";
import type { Course, TrainingRecord } from "../training.ts";
import { addNoise, batchOf, chosen, type Rows, rowsOf, scalarsOf } from "./batches.ts";

/** So often views show the network of now, and Python is told. */
const REFRESH_MS = 250;
/** Evaluating and saving may take this share of the time each. */
const EVALUATING = 0.1;
const SAVING = 0.05;
/** A state is sent to Python so often at most, beside each pause and the end. */
const SAVE_MS = 10_000;
const LOST_MS = 200;

interface Kept {
  readonly step: number;
  readonly rows: ReadonlyMap<number, Float32Array>;
}

export interface LoopEvents {
  /** How it goes. */
  onProgress(part: Partial<TrainingProgress>): void;
  /** It pauses or stops by itself. */
  onState(state: TrainingRecord["state"]): void;
  /** Whether somebody sees one of its views. */
  isSeen(): boolean;
}

export class Loop {
  private readonly host: TrainingHost;
  private readonly course: Course;
  private readonly rates: Float32Array | undefined;
  private readonly rows: readonly Rows[];
  private readonly heldOutRows: readonly Rows[];
  private readonly events: LoopEvents;
  private record: TrainingRecord;
  private step: number;
  private examples = 0;
  private readonly losses: number[] = [];
  private readonly accuracies: number[] = [];
  private readonly heldOut: [number, number, number | null][] = [];
  private told = 0;
  private toldHeldOut = 0;
  private kept: Kept | undefined;
  /** Of the context, as of `kept`'s last use. */
  private lost: number;
  private going = false;
  private closed = false;
  private readonly spent = { all: 0, evaluating: 0, saving: 0 };
  private refreshed = 0;
  private saved = 0;

  constructor(
    host: TrainingHost,
    record: TrainingRecord,
    course: Course,
    rows: readonly Rows[],
    heldOutRows: readonly Rows[],
    rates: Float32Array | undefined,
    events: LoopEvents,
  ) {
    this.host = host;
    this.record = record;
    this.course = course;
    this.rows = rows;
    this.heldOutRows = heldOutRows;
    this.rates = rates;
    this.events = events;
    this.step = course.begin;
    this.lost = host.losses;
  }

  /** Fetches a training's data; it begins with `follow`. */
  static async open(
    host: TrainingHost,
    record: TrainingRecord,
    course: Course,
    events: LoopEvents,
  ): Promise<Loop> {
    const bytes = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
    const get = (name: string) => {
      const known = bytes.get(name) ?? host.blob(name);
      bytes.set(name, known);
      return known;
    };
    const all = (which: "blob" | "held_out") =>
      Promise.all(course.columns.map(async (column) => rowsOf(column, await get(column[which]))));
    const rows = await all("blob");
    const heldOut = course.held_out > 0 ? await all("held_out") : [];
    const given = course.rates === "" ? undefined : await get(course.rates);
    const rates = given && new Float32Array(given.slice().buffer);
    return new Loop(host, record, course, rows, heldOut, rates, events);
  }

  /** Begins from the weights of the beginning. */
  async begin(): Promise<void> {
    const initial = this.host.initial();
    await this.host.use(async (session) => put(session, initial));
    this.kept = { step: this.step, rows: initial };
    await this.evaluate();
    this.tell();
  }

  /** What is wanted now. */
  follow(record: TrainingRecord): void {
    const before = this.record;
    this.record = record;
    if (record.state === "running") void this.go();
    else if (record.state === "stopped" && !this.going) void this.end();
    else if (before.state === "running" && !this.going) this.events.onProgress({ phase: "paused" });
  }

  close(): void {
    this.closed = true;
  }

  private get wanted(): boolean {
    return !this.closed && this.record.state === "running";
  }

  private async go(): Promise<void> {
    if (this.going) return;
    this.going = true;
    try {
      while (this.wanted) {
        if (document.hidden) {
          this.events.onProgress({ phase: "hidden" });
          await seen();
          continue;
        }
        const { end } = this.course;
        if (end >= 0 && this.step >= end) {
          this.record = { ...this.record, state: "stopped" };
          break;
        }
        if (this.record.until >= 0 && this.step >= this.record.until) {
          this.record = { ...this.record, state: "paused", until: -1 };
          this.events.onState("paused");
          break;
        }
        this.events.onProgress({ phase: "running" });
        await this.once();
        await this.besides();
      }
      if (!this.closed) await this.rest();
    } catch (error) {
      if (!this.closed) this.fail(error);
    } finally {
      this.going = false;
    }
    if (this.wanted) void this.go();
  }

  /** One step; after a lost context from the last state that was kept. */
  private async once(): Promise<void> {
    const { host, course, step } = this;
    if (host.losses !== this.lost) {
      await this.revive();
      return;
    }
    const start = performance.now();
    const examples = chosen(course, step);
    const batch = batchOf(this.rows, examples, course.batch, course.inputs);
    addNoise(batch, course, this.record.noise, step);
    const rate = this.rates?.[Math.min(step - course.begin, this.rates.length - 1)];
    const scalars = scalarsOf(course, rate ?? this.record.lr, step);
    let told: Float32Array;
    try {
      told = await host.use(async (session) => {
        for (const [key, data] of batch.inputs) session.write(key, data);
        for (const [key, number] of scalars) session.write(key, Float32Array.of(number));
        await session.run({ section: "train" });
        const found = await session.sample(course.loss_key, [[0, 0, 1]]);
        const isSound = Number.isFinite(found[0]) && Number.isFinite(found[1]);
        if (isSound && host.losses === this.lost) session.commit();
        return found;
      });
    } catch (error) {
      if (!isLost(error)) throw error;
      await this.revive();
      return;
    }
    if (host.losses !== this.lost) return;
    const [loss = Number.NaN, check = Number.NaN, right = Number.NaN] = told;
    if (!Number.isFinite(loss) || !Number.isFinite(check)) {
      this.stop(
        `training stopped at step ${step}: ${Number.isFinite(loss) ? "a parameter" : "the loss"} ` +
          "became NaN or infinite. The weights are those before it; lower the learning rate",
      );
      return;
    }
    this.step += 1;
    this.examples += examples.length;
    this.losses.push(loss);
    this.accuracies.push(course.accuracy ? right : Number.NaN);
    const ms = performance.now() - start;
    this.spent.all += ms;
    this.events.onProgress({ step: this.step, examples: this.examples, ms });
  }

  /** What is done between steps: views, what is held out, and a state to go back to. */
  private async besides(): Promise<void> {
    const now = performance.now();
    const { spent } = this;
    if (this.heldOutRows.length > 0 && spent.evaluating < EVALUATING * spent.all) {
      await this.evaluate();
      spent.evaluating += performance.now() - now;
    }
    if (now - this.refreshed < REFRESH_MS) return;
    this.refreshed = now;
    this.tell();
    if (this.events.isSeen()) await this.host.refresh().catch(unlessLost);
    if (now - this.saved > SAVE_MS && spent.saving < SAVING * spent.all) {
      const start = performance.now();
      await this.save(false);
      spent.saving += performance.now() - start;
    }
  }

  /** The loss of all that is held out, with the weights of now. */
  private async evaluate(): Promise<void> {
    const { course, host, step } = this;
    if (this.heldOutRows.length === 0 || this.heldOut.at(-1)?.[0] === step) return;
    let [loss, right] = [0, 0];
    // The first batch last: its predictions are what is seen.
    const batches = Math.ceil(course.held_out / course.batch);
    for (let k = batches - 1; k >= 0; k--) {
      const first = k * course.batch;
      const count = Math.min(course.batch, course.held_out - first);
      const examples = Array.from({ length: count }, (_, at) => first + at);
      const { inputs } = batchOf(this.heldOutRows, examples, course.batch, course.held_out_inputs);
      let found: Float32Array;
      try {
        found = await host.use(async (session) => {
          for (const [key, data] of inputs) session.write(key, data);
          await session.run({ section: "evaluate" });
          return session.sample(course.held_out_key, [[0, 0, 1]]);
        });
      } catch (error) {
        if (!isLost(error)) throw error;
        return; // the next step goes back to the last state
      }
      loss += ((found[0] ?? 0) * count) / course.held_out;
      right += ((found[1] ?? 0) * count) / course.held_out;
    }
    this.heldOut.push([step, loss, course.accuracy ? right : null]);
  }

  /** It pauses or ends: Python gets what there is. */
  private async rest(): Promise<void> {
    if (this.record.state === "stopped") {
      await this.end();
      return;
    }
    await this.evaluate();
    this.tell();
    await this.save(false);
    await this.host.refresh().catch(unlessLost);
    this.events.onProgress({ phase: "paused" });
  }

  private async end(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    try {
      await this.evaluate();
      this.tell();
      await this.save(true);
    } finally {
      this.events.onProgress({ phase: "stopped" });
      this.events.onState("stopped");
    }
  }

  private stop(message: string): void {
    this.events.onProgress({ message });
    this.tell(message);
    this.record = { ...this.record, state: "stopped" };
  }

  private fail(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.events.onProgress({ phase: "failed", message });
    this.tell(`training stopped at step ${this.step}: ${message}`);
    this.events.onState("paused");
  }

  /** Keeps the state of now, and sends it to Python. */
  private async save(last: boolean): Promise<void> {
    const { host, course, step } = this;
    const [rows, parts] = await host.use(async (session) => {
      const saved = await session.saved();
      const found: Float32Array[] = [];
      for (const name of course.state) found.push(await session.read(name));
      return [saved, found] as const;
    });
    this.kept = { step, rows };
    this.saved = performance.now();
    const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    host.save(this.record.id, step, all, last);
  }

  /** After a lost context: waits for the network, and goes back to the last state. */
  private async revive(): Promise<void> {
    const { host, course, kept } = this;
    while (!this.closed) {
      // A run fails before the page is told of the loss, and again until all is there.
      await new Promise((resolve) => setTimeout(resolve, LOST_MS));
      if (host.plan !== course.plan) continue;
      this.lost = host.losses;
      if (kept === undefined) return;
      const isPut = await host
        .use(async (session) => {
          put(session, kept.rows);
          await session.run({ section: "evaluate" });
        })
        .then(
          () => true,
          (error: unknown) => unlessLost(error) ?? false,
        );
      if (isPut && this.lost === host.losses) break;
    }
    if (this.closed || kept === undefined) return;
    const lost = this.step - kept.step;
    this.step = kept.step;
    const begin = kept.step - this.course.begin;
    this.losses.length = begin;
    this.accuracies.length = begin;
    this.told = Math.min(this.told, begin);
    const message =
      `the browser took the graphics context away: training goes on from step ${kept.step}` +
      (lost > 0 ? `; the ${lost} steps behind it are lost` : "");
    this.events.onProgress({ message, step: this.step });
    this.tell(message);
  }

  private tell(message = ""): void {
    const { losses, accuracies, heldOut, told, toldHeldOut } = this;
    const rows = new Float32Array(2 * (losses.length - told));
    for (let k = told; k < losses.length; k++) {
      rows[2 * (k - told)] = losses[k] ?? Number.NaN;
      rows[2 * (k - told) + 1] = accuracies[k] ?? Number.NaN;
    }
    this.told = losses.length;
    this.toldHeldOut = heldOut.length;
    const held_out = heldOut.slice(toldHeldOut);
    this.host.tell({ training: this.record.id, first: told, held_out, message }, rows);
    this.events.onProgress({
      losses: [...losses],
      accuracies: [...accuracies],
      heldOut: [...heldOut],
    });
  }
}

async function put(session: Session, rows: ReadonlyMap<number, Float32Array>): Promise<void> {
  for (const [texture, data] of rows) session.setWeight(texture, data);
}

const isLost = (error: unknown): boolean =>
  error instanceof Error && error.name === "ContextLostError";

function unlessLost(error: unknown): undefined {
  if (!isLost(error)) throw error;
}

/** Resolves when the page is seen again. */
function seen(): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}
