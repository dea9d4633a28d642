// Trains in the page: step after step between frames, with what is held out looked at now and then.

import { partsOf } from "../../chunks.ts";
import type { Stepped } from "../../messages.ts";
import { nextStep, type Tensors } from "./checkpoints.ts";
import { type Given, seenBy } from "./dataset.ts";
import type { History } from "./history.ts";
import type { TrainingRecord } from "./records.ts";
import type { TrainingActions, TrainingHost, TrainingProgress } from "./state.ts";
import { NOTHING_FAILED, type StepGave } from "./steps.ts";
import { Work } from "./training_session.ts";
import { seen } from "./visibility.ts";
import { Watches } from "./watches.ts";

/** So often views show the network of now, and Python is told; views at most for this share of the time. */
const REFRESH_MS = 250;
const VIEWING = 0.25;
/** So often views are told how many steps are done. */
const COUNT_MS = 100;
/** Evaluating, and keeping states, may take this share of the time each. */
const EVALUATING = 0.1;
const SAVING = 0.05;
/** A state is sent to Python so often at most, beside each pause and the end. */
const SAVE_MS = 10_000;
/** So often it says that it is there while it pauses: another page takes over where it is silent. */
const BEAT_MS = 1500;

export interface LoopEvents {
  /** How it goes. */
  onProgress(part: Partial<TrainingProgress>): void;
  /** It pauses or stops by itself. */
  onState(state: TrainingRecord["state"]): void;
  /** Whether somebody sees one of its views. */
  isSeen(): boolean;
  /** The id of the checkpoint that the reader has chosen; null for none. */
  chosen(): number | null;
}

export class Loop implements TrainingActions {
  private readonly host: TrainingHost;
  private readonly given: Given;
  private readonly history: History;
  private readonly events: LoopEvents;
  private readonly watches: Watches;
  private readonly work: Work;
  private record: TrainingRecord;
  private step: number;
  private examples: number;
  /** Steps that Python knows. */
  private told: number;
  private toldHeldOut = 0;
  /** The weights of now, while those of a checkpoint are shown. */
  private now: Tensors | undefined;
  /** What is done one after the other. */
  private turn: Promise<void> = Promise.resolve();
  private begun = false;
  private going = false;
  private closed = false;
  /** It pauses by itself, which nobody knows yet. */
  private untold = false;
  private readonly beat: ReturnType<typeof setInterval>;
  private changed: () => void = () => undefined;
  private readonly spent = { all: 0, evaluating: 0, saving: 0 };
  private ms = 0;
  private nextTold = 0;
  private nextShown = 0;
  private counted = 0;
  /** The step whose gradients and moves views were given last. */
  private measured = -1;
  private saved = 0;

  /** `history` may have steps of other rounds. */
  constructor(
    host: TrainingHost,
    record: TrainingRecord,
    given: Given,
    history: History,
    events: LoopEvents,
  ) {
    this.host = host;
    this.record = record;
    this.given = given;
    this.history = history;
    this.events = events;
    this.watches = new Watches(given.course);
    this.work = new Work(host, given, this.watches);
    this.beat = setInterval(() => {
      if (this.begun && !this.going) this.tell();
    }, BEAT_MS);
    this.step = record.at;
    history.line.cut(record.at);
    this.told = history.line.steps;
    this.examples = history.last?.examples ?? seenBy(given.course, record.at);
  }

  /** Begins with the Plan's weights; does what is wanted. */
  async begin(): Promise<void> {
    await this.work.begin();
    await this.evaluate();
    await this.keep();
    this.tell();
    this.show();
    this.begun = true;
    if (this.record.state === "running") this.go();
    else this.queue(() => this.rest());
  }

  /** What is wanted now. */
  follow(record: TrainingRecord): void {
    const before = this.record;
    this.record = record;
    this.untold = false;
    this.changed();
    if (!this.begun) return;
    if (record.state === "running") this.go();
    else if (!this.going && record.state !== before.state) this.queue(() => this.rest());
  }

  /** The network was run anew: where its context was lost while nothing went on, it gets its weights back. */
  recover(): void {
    if (!this.begun || this.going || !this.work.isLost) return;
    this.queue(async () => {
      if (this.going || !this.work.isLost) return;
      await this.revive();
      this.events.onProgress({ looking: null });
      await this.refresh();
    });
  }

  close(): void {
    this.closed = true;
    clearInterval(this.beat);
    this.changed();
  }

  // What views ask

  watch(keys: readonly string[], take: (arrays: Float32Array[]) => void): () => void {
    return this.watches.add(keys, take, () => this.give());
  }

  look(id: number | null): void {
    this.queue(async () => {
      if (this.going || this.record.state !== "paused") return;
      const kept = id === null ? undefined : this.history.get(id);
      if (kept === undefined) await this.lookAway();
      else if (this.work.fits(kept.tensors)) {
        this.now ??= await this.work.state();
        await this.work.put(kept.tensors);
        this.events.onProgress({ looking: kept.id });
      }
      await this.refresh();
    });
  }

  goBack(id: number, keep: boolean): void {
    if (this.record.state === "running") this.becomes("paused");
    this.queue(async () => {
      const to = this.history.get(id);
      if (to === undefined || !this.work.fits(to.tensors) || this.record.state === "stopped")
        return;
      this.now = undefined;
      this.told = Math.min(this.told, this.history.goBack(to, keep));
      this.goesOnFrom(to.step, to.examples);
      this.watches.forget();
      await this.work.put(to.tensors);
      this.events.onProgress({ looking: null, ratios: null, dead: null });
      this.showKept();
      await this.rest();
    });
  }

  // One thing after the other

  private queue(work: () => Promise<void>): void {
    this.turn = this.turn
      .then(() => (this.closed ? undefined : work()))
      .catch((error: unknown) => {
        if (!this.closed) this.fail(error);
      });
  }

  private get wanted(): boolean {
    return !this.closed && this.record.state === "running";
  }

  /** It pauses or stops by itself, which is told once all of that is done. */
  private becomes(state: TrainingRecord["state"]): void {
    this.record = { ...this.record, state, until: -1 };
    this.untold = state !== "stopped";
    this.changed();
  }

  private tellState(): void {
    if (!this.untold) return;
    this.untold = false;
    if (this.record.state === "paused") this.tell("", { ...NOTHING_FAILED, paused: true });
    this.events.onState(this.record.state);
  }

  private go(): void {
    if (this.going) return;
    this.going = true;
    this.queue(async () => {
      try {
        await this.lookAway();
        while (this.wanted) await this.next();
      } finally {
        this.going = false;
      }
      if (!this.closed) await this.rest();
    });
  }

  private async next(): Promise<void> {
    const { end } = this.given.course;
    if (document.hidden) {
      this.events.onProgress({ phase: "hidden" });
      await Promise.race([seen(), this.change()]);
    } else if (end >= 0 && this.step >= end) this.becomes("stopped");
    else if (this.record.until >= 0 && this.step >= this.record.until) this.becomes("paused");
    else {
      this.events.onProgress({ phase: "running" });
      await this.once();
      await this.besides();
    }
  }

  /** Resolves when something else is wanted. */
  private change(): Promise<void> {
    return new Promise((resolve) => {
      this.changed = resolve;
    });
  }

  /** One step; after a lost context from the last state that was kept. */
  private async once(): Promise<void> {
    const start = performance.now();
    const isLast = [this.given.course.end, this.record.until].includes(this.step + 1);
    const measured = isLast || (start >= this.nextShown && this.events.isSeen());
    const { lr, noise } = this.record;
    const done = this.work.isLost
      ? undefined
      : await this.work.step({ step: this.step, lr, noise, measured });
    if (done === undefined) {
      await this.revive();
      return;
    }
    if (measured) {
      this.measured = this.step;
      this.events.onProgress({ ratios: done.ratios, dead: done.dead });
    }
    if (!done.isSound) {
      this.wentWrong(done);
      return;
    }
    this.step += 1;
    this.examples += done.examples.length;
    this.history.line.add(done.loss, done.accuracy);
    const ms = performance.now() - start;
    this.spent.all += ms;
    this.ms = this.ms === 0 ? ms : 0.9 * this.ms + 0.1 * ms;
    if (start - this.counted < COUNT_MS) return;
    this.counted = start;
    this.count();
  }

  /** What is done between steps: views, what is held out, and a state to go back to. */
  private async besides(): Promise<void> {
    const { spent, step } = this;
    const now = performance.now();
    if (this.given.heldOutRows.length > 0 && spent.evaluating < EVALUATING * spent.all) {
      await this.evaluate();
      spent.evaluating += performance.now() - now;
    }
    const isDue = step >= nextStep(this.history.last?.step ?? 0);
    if (isDue && spent.saving < SAVING * spent.all) await this.timed(() => this.keepOnce());
    if (now >= this.nextTold) {
      this.nextTold = now + REFRESH_MS;
      this.tell();
      this.show();
    }
    if (now >= this.nextShown && this.events.isSeen()) {
      const start = performance.now();
      await this.refresh();
      const end = performance.now();
      this.nextShown = end + Math.max(REFRESH_MS, (end - start) / VIEWING);
    }
    if (now - this.saved > SAVE_MS && spent.saving < SAVING * spent.all)
      await this.timed(() => this.save(false));
  }

  private async timed(saving: () => Promise<unknown>): Promise<void> {
    const start = performance.now();
    await saving();
    this.spent.saving += performance.now() - start;
  }

  private get hasStepped(): boolean {
    return this.step > this.record.at;
  }

  /** Views show the network of now. */
  private async refresh(): Promise<void> {
    await this.work.refresh();
    if (this.now !== undefined) return; // what is watched stays that of now
    const predictions = await this.work.seen(this.hasStepped);
    if (predictions !== undefined && this.work.fixed !== null)
      this.events.onProgress({ predictions });
  }

  /** The training rests: views that were out of sight show the last step too. */
  private async refreshLast(): Promise<void> {
    if (!this.events.isSeen() && this.measured < this.step - 1) {
      this.watches.forget();
      this.events.onProgress({ ratios: null, dead: null });
    }
    await this.refresh();
  }

  private give(): void {
    if (this.now !== undefined) return; // until the weights of now are there again
    this.work.give(this.hasStepped).catch((error: unknown) => {
      if (!this.closed && this.host.plan === this.given.course.plan) this.fail(error);
    });
  }

  /** The loss of all that is held out, with the weights of now. */
  private async evaluate(): Promise<void> {
    const { heldOut } = this.history.line;
    if (this.given.heldOutRows.length === 0 || heldOut.at(-1)?.[0] === this.step) return;
    const found = await this.work.evaluate();
    if (found === undefined) return; // the next step goes back to the last state
    heldOut.push([this.step, found[0], this.given.course.accuracy ? found[1] : null]);
  }

  /** Keeps the state of now as a checkpoint. */
  private async keep(): Promise<void> {
    const { step, examples } = this;
    const { losses, heldOut } = this.history.line;
    const kept = await this.work.kept();
    if (kept === undefined) return;
    const held = heldOut.findLast(([at]) => at === step)?.[1];
    const loss = held ?? losses[step - 1] ?? Number.NaN;
    this.history.add({ ...kept, step, examples, loss }, this.events.chosen());
    this.showKept();
  }

  private async keepOnce(): Promise<void> {
    await this.evaluate();
    if (this.history.last?.step !== this.step) await this.keep();
  }

  /** It pauses, is handed over or ends: Python gets what there is. */
  private async rest(): Promise<void> {
    if (this.record.state === "running") return;
    if (this.record.state === "stopped") {
      await this.end();
      return;
    }
    await this.lookAway();
    await this.keepOnce();
    this.tell();
    this.show();
    await this.save(false);
    await this.refreshLast();
    const isHanded = this.record.state === "handing";
    this.events.onProgress({ phase: isHanded ? "waiting" : "paused" });
    this.tellState();
  }

  private async end(): Promise<void> {
    try {
      await this.lookAway();
      await this.keepOnce();
      this.tell();
      this.show();
      // Before Python has the weights: it may show another Plan then.
      await this.refreshLast();
      if (!(await this.save(true))) {
        await this.revive();
        await this.save(true);
      }
    } finally {
      clearInterval(this.beat);
      this.closed = this.host.compiles; // without Python what was learned is here alone
      this.events.onProgress({ phase: "stopped" });
      this.events.onState("stopped");
    }
  }

  /** What would be committed is NaN. */
  private wentWrong({ loss, examples, numbers }: StepGave): void {
    const what = Number.isFinite(loss) ? "a parameter" : "the loss";
    const message =
      `training stopped at step ${this.step}: ${what} became NaN or infinite. ` +
      "The weights are those before it; lower the learning rate";
    this.events.onProgress({ message });
    this.tell(message, {
      ...NOTHING_FAILED,
      failed: [...examples],
      numbers: Object.fromEntries(numbers),
    });
    this.becomes("stopped");
  }

  private fail(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.tell(`training stopped at step ${this.step}: ${message}`);
    this.becomes("paused");
    this.tellState();
    this.events.onProgress({ phase: "failed", message });
  }

  /** Sends the state of now to Python; false where the context is lost. */
  private async save(last: boolean): Promise<boolean> {
    const { step } = this;
    const state = await this.work.saved();
    if (state === undefined) return false;
    this.saved = performance.now();
    const handing = this.record.state === "handing";
    const parts = partsOf(state.buffer, this.host.chunk);
    const [count, bytes] = [parts.length, state.byteLength];
    const saved = { training: this.record.id, step, last, handing, count, bytes };
    for (const [part, data] of parts.entries()) this.host.save({ ...saved, part }, data);
    return true;
  }

  /** Puts the weights of now back. */
  private async lookAway(): Promise<void> {
    const { now } = this;
    if (now === undefined) return;
    this.now = undefined;
    await this.work.put(now);
    this.events.onProgress({ looking: null });
  }

  /** After a lost context: waits for the network, and goes back to the last state. */
  private async revive(): Promise<void> {
    const kept = this.history.last;
    if (kept === undefined || !(await this.work.revive(kept.tensors, () => this.closed))) return;
    const gone = this.step - kept.step;
    this.now = undefined;
    this.history.line.cut(kept.step);
    this.told = Math.min(this.told, kept.step);
    this.goesOnFrom(kept.step, kept.examples);
    const goesOn =
      this.record.state === "stopped" ? "the weights are those of" : "training goes on from";
    const lost = gone === 1 ? "the step behind it is lost" : `the ${gone} steps behind it are lost`;
    const message =
      `the browser took the graphics context away: ${goesOn} step ${kept.step}` +
      (gone > 0 ? `; ${lost}` : "");
    this.events.onProgress({ message });
    this.tell(message);
    this.show();
  }

  private goesOnFrom(step: number, examples: number): void {
    this.step = step;
    this.examples = examples;
    this.toldHeldOut = 0;
  }

  // Who is told

  private tell(
    message = "",
    more: Pick<Stepped, keyof typeof NOTHING_FAILED> = NOTHING_FAILED,
  ): void {
    const { told, toldHeldOut } = this;
    const { losses, heldOut } = this.history.line;
    const rows = this.history.line.rows(told);
    this.told = losses.length;
    this.toldHeldOut = heldOut.length;
    const held_out = heldOut.slice(toldHeldOut);
    this.host.tell({ training: this.record.id, first: told, held_out, message, ...more }, rows);
  }

  private count(): void {
    this.events.onProgress({ step: this.step, examples: this.examples, ms: this.ms });
  }

  private show(): void {
    this.count();
    const fixed = this.work.fixed?.examples ?? null;
    this.events.onProgress({ ...this.history.line.curve(), fixed });
  }

  private showKept(): void {
    const { checkpoints, branches } = this.history;
    const found = checkpoints.map((kept) => ({ ...kept, fits: this.work.fits(kept.tensors) }));
    this.events.onProgress({ checkpoints: found, branches });
  }
}
