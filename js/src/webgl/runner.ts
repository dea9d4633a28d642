// Writes, runs and reads a Plan on the device, and survives the loss of its context. No pictures here.

import { Carries } from "../plan/carries.ts";
import { checkPlan } from "../plan/checks.ts";
import { listed } from "../plan/error_text.ts";
import { Expected } from "../plan/run_time_estimate.ts";
import {
  ContextLostError,
  type Patch,
  type Picture,
  PlanError,
  type Progress,
  type RunInfo,
  type RunOptions,
  SessionClosed,
} from "../plan/runtime.ts";
import { cut, FLUENT, predict, URGENT } from "../plan/schedule.ts";
import type { Pass, PlanHeader, Value } from "../plan/schema.ts";
import { Sections } from "../plan/sections.ts";
import { Clock, whenDone } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { type Editing, type MakeEdits, Unedited } from "./editing.ts";
import type { Edits } from "./edits.ts";
import { Feeding } from "./input_feed.ts";
import { PlanObjects } from "./objects.ts";
import { type Finish, inSlices, runAtOnce, type Submission } from "./submit.ts";
import { Pending } from "./upload_queue.ts";

/**
 * A run that seemed this short (a fence is seen late) is waited for: no clock is better, and no frame is lost.
 * Somebody who waits for its numbers loses more with a fence: whatever is one slice is waited for then.
 */
const WALL_MS = 16;

interface Flight {
  /** Which writes it computes. */
  version: number;
  urgent: boolean;
  /** It computes what is there already, for the time that this takes. */
  readonly again: boolean;
  sections: readonly number[];
  /** It runs without edits first, for these inputs and weights. */
  without?: number;
  result: Promise<RunInfo>;
}

interface Asked extends RunOptions {
  /** What is there is computed anew, or brought up to date: a commit waits for the next step. */
  readonly keep?: boolean;
}

/** What runs behind the flight, for all who asked meanwhile. */
interface Queued extends Pick<Flight, "sections" | "result"> {
  readonly options: Asked;
}

type OnProgress = (progress: Progress) => void;

export class Runner {
  readonly plan: PlanHeader;
  sequence = 0;
  /** Called when the objects are made anew, before they run again. */
  onRebuilt: () => Promise<void> = async () => undefined;
  readonly device: GlDevice;
  /** Those of a network that is edited. */
  edited: Edits | undefined;
  private readonly uniforms: Uint8Array;
  private readonly pending: Pending;
  private readonly undo: () => void;
  private building: Promise<void> = Promise.resolve();
  private objects: PlanObjects | undefined;
  private clock: Clock;
  private readonly sections: Sections;
  private readonly carries: Carries;
  private feeding: Feeding | undefined;
  private readonly unedited: Unedited;
  private readonly times: Expected;
  /** Of the writes whose values the textures hold, by section. */
  private readonly shown: number[];
  /** Of the writes that the last run computed. */
  private version = -1;
  private flight: Flight | undefined;
  private next: Queued | undefined;
  private last: RunInfo | undefined;
  /** What that was of. */
  private lastSections: readonly number[];
  private closed = false;

  private constructor(device: GlDevice, plan: PlanHeader, uniforms: Uint8Array, pending: Pending) {
    this.device = device;
    this.plan = plan;
    this.uniforms = uniforms;
    this.pending = pending;
    this.sections = new Sections(plan);
    this.carries = new Carries(plan);
    this.unedited = new Unedited(plan, this.sections);
    this.times = new Expected(plan.passes);
    this.shown = plan.sections.map(() => -1);
    this.lastSections = this.sections.all;
    this.clock = new Clock(device.gl, device.capabilities.software);
    this.undo = device.onRebuild(() => this.rebuild());
  }

  static async make(
    device: GlDevice,
    plan: PlanHeader,
    uniforms: Uint8Array,
    weight: (hash: string) => Float32Array,
    onProgress: OnProgress = () => undefined,
  ): Promise<Runner> {
    checkPlan(plan, uniforms.byteLength, device.capabilities.target);
    device.check();
    const runner = new Runner(device, plan, uniforms, new Pending(plan, weight));
    runner.building = runner.build(onProgress);
    try {
      await runner.building;
    } catch (error) {
      runner.dispose();
      throw error;
    }
    return runner;
  }

  get bytes(): number {
    return (this.objects?.bytes ?? 0) + (this.feeding?.bytes ?? 0);
  }

  write(key: string, data: Float32Array): void {
    this.pending.write(key, data);
  }

  feed(key: string, picture: Picture, mirrored: boolean): void {
    this.pending.feed(key, { picture, mirrored });
  }

  setWeight(texture: number, data: Float32Array, hash?: string): void {
    this.pending.setWeight(texture, data, hash);
    this.carries.forget();
  }

  patchWeight(patch: Patch): void {
    this.pending.patchWeight(patch);
    this.carries.forget();
  }

  commit(): void {
    this.carries.commit();
  }

  /** The rows of all state as it is after the last commit, by texture; no run changes it meanwhile. */
  async saved(): Promise<ReadonlyMap<number, Float32Array>> {
    const { device } = this;
    const objects = this.ready();
    // Taken at once: what follows on the device comes behind it.
    const reads = this.carries.lying.map(([target, lies]) => [target, objects.rows(lies)] as const);
    return whenDone(device, () => new Map(reads.map(([target, read]) => [target, read()])));
  }

  run(options: Asked = {}): Promise<RunInfo> {
    return this.ask(options, this.sections.named(options.section));
  }

  private ask(options: Asked, sections: readonly number[]): Promise<RunInfo> {
    const { flight } = this;
    if (flight === undefined) return this.launch(options, sections).result;
    const steps = this.carries.pending && !options.keep;
    const has = sections.every((one) => flight.sections.includes(one));
    if (flight.version === this.pending.version && has && !steps) {
      flight.urgent ||= options.urgent ?? false;
      return flight.result;
    }
    const before = this.next;
    const urgent = options.urgent || before?.options.urgent || false;
    const keep = (options.keep ?? false) && (before?.options.keep ?? true);
    const again = () => {
      const { next } = this;
      this.next = undefined;
      return this.ask(next?.options ?? {}, next?.sections ?? this.sections.all);
    };
    this.next = {
      options: { ...before?.options, ...options, urgent, keep },
      sections: [...new Set([...(before?.sections ?? []), ...sections])],
      result: before?.result ?? flight.result.then(again, again),
    };
    return this.next.result;
  }

  /** Milliseconds that the last run takes, as far as that is known. */
  get expected(): number {
    return this.times.least(this.lastSections, this.edits.passes(this.lastSections));
  }

  /** Computes what is there already, for the time that this takes; undefined where something new is to be run, or is. */
  again(): Promise<RunInfo> | undefined {
    this.ready();
    if (this.flight !== undefined || !this.isShown(this.lastSections)) return undefined;
    // By a fence a short run seems long; once it is known to be short, it is waited for.
    const measured = this.times.measured(this.lastSections, this.edits.passes(this.lastSections));
    const urgent = measured !== undefined && measured < 2 * WALL_MS;
    return this.launch({ urgent, keep: true }, this.lastSections, undefined, true).result;
  }

  private isShown(sections: readonly number[]): boolean {
    return sections.every((one) => this.shown[one] === this.pending.version);
  }

  get edits(): Editing {
    return this.edited ?? this.unedited;
  }

  /** Edits to change. The caller passes their class, so that runtime.js has no code of edits. */
  editing(Made: MakeEdits): Edits {
    if (this.closed) throw new SessionClosed("this session was closed");
    const changed = () => {
      this.pending.version += 1;
    };
    this.edited ??= new Made(this.device, this.plan, this.sections, changed, this.objects);
    return this.edited;
  }

  private async prepareFeeding(): Promise<void> {
    this.ready();
    this.feeding ??= new Feeding(this.device);
    await this.feeding.prepare();
  }

  /** Which inputs, weights and state there are, whatever is edited. */
  private get given(): number {
    return this.pending.version - this.edits.changes;
  }

  /** Brings what only looks at values up to date: by itself, where these are there, else with a run. */
  async look(): Promise<void> {
    await this.building;
    while (this.flight !== undefined) {
      await this.flight.result.then(
        () => undefined,
        () => undefined,
      );
    }
    if (this.sequence === 0) return;
    const objects = this.ready();
    if (!this.isShown(this.lastSections)) {
      await this.run({ keep: true });
      return;
    }
    this.edits.flush(objects);
    for (const pass of this.edits.aside) objects.draw(pass);
  }

  /** The objects, once they are built. */
  built = (): Promise<PlanObjects> => this.building.then(() => this.ready());

  /** All of a run, with edits. */
  get passes(): readonly Pass[] {
    return this.edits.passes(this.sections.all);
  }

  /** How a value is read now: a state that is committed lies elsewhere until the next run. */
  reading({ read }: Value): Pass {
    return this.carries.reading(read.step);
  }

  /** Does `work` when `value`'s texture holds what the current inputs and weights give, and no run is on its way. */
  async whenFresh<T>(value: Value, work: (objects: PlanObjects) => T): Promise<T> {
    await this.building;
    if (value.kind === "parameter" && this.pending.missing.length > 0) {
      this.pending.flushWeights(this.ready()); // no run was possible yet, so none is disturbed
      return work(this.ready());
    }
    let done: { readonly result: T } | undefined;
    const finish = (objects: PlanObjects) => {
      done = { result: work(objects) };
    };
    const sections = [this.sections.of(this.edits.base(value).texture)];
    while (!this.isShown(sections)) {
      done = undefined;
      const options = { urgent: true, keep: true };
      const flight = this.flight ?? this.launch(options, sections, finish);
      if (this.isShown(sections)) {
        flight.result.catch(() => undefined); // all is submitted; `work` sees a loss for itself
        break;
      }
      flight.urgent = true;
      const { version } = flight;
      const failed = (error: unknown) => {
        if (version === this.pending.version) throw error;
      };
      await flight.result.then(() => undefined, failed);
    }
    return done === undefined ? work(this.ready()) : (done as { readonly result: T }).result;
  }

  /**
   * Does `work` while no run is on its way; runs asked for meanwhile wait for it. It may run passes
   * again: what they give is the same, but textures that several layers share hold old values then.
   */
  async alone<T>(work: (objects: PlanObjects, clock: Clock) => Promise<T>): Promise<T> {
    await this.building;
    const { all } = this.sections;
    while (this.flight !== undefined || !this.isShown(all)) await this.run({ keep: true });
    const { last } = this;
    if (last === undefined) throw new PlanError("nothing was run yet");
    const { version } = this.pending;
    const flight: Flight = { version, urgent: false, again: true, sections: all, result: NEVER };
    this.flight = flight;
    const working = work(this.ready(), this.clock).finally(() => this.restore(flight));
    const ended = () => last;
    flight.result = working.then(ended, ended);
    this.clear(flight);
    return working;
  }

  /** After passes ran by themselves: what a commit would copy is computed anew at once, all else when it is wanted. */
  private async restore(flight: Flight): Promise<void> {
    const { length } = this.plan.passes;
    if (length === new Set(this.plan.passes.map(({ output }) => output)).size) return;
    this.shown.fill(-1);
    if (this.carries.none) return;
    const passes = this.edits.passes(this.sections.all);
    const ms = predict(passes, this.times.of(this.sections.all, passes));
    await inSlices(
      cut(passes, ms, () => false, FLUENT),
      this.submission(flight, this.ready()),
    );
  }

  /** A value or parameter by name, as it lies now: what follows from edits too. */
  find(key: string): Value {
    const { values, parameters } = this.plan;
    const value = this.edits.find(key) ?? parameters.find((one) => one.key === key);
    if (value !== undefined) return value;
    const keys = values.map((one) => one.key);
    if (keys.includes(key))
      throw new PlanError(`${key} has no value now: a latent skips its layer`);
    throw new PlanError(`no value ${JSON.stringify(key)}; this network has ${listed(keys)}`);
  }

  /** The Plan's objects; throws when they are gone. */
  ready(): PlanObjects {
    if (this.closed) throw new SessionClosed("this session was closed");
    const { objects } = this;
    this.device.check(objects?.generation);
    if (objects === undefined) throw new ContextLostError();
    return objects;
  }

  dispose(): void {
    if (this.closed) return;
    this.closed = true;
    this.edits.dispose();
    this.feeding?.dispose();
    this.undo();
    this.objects?.dispose();
    this.objects = undefined;
  }

  private async build(onProgress: OnProgress): Promise<void> {
    const { device, pending, plan } = this;
    const reads = await device.measured();
    if (this.closed) throw new SessionClosed("this session was closed");
    this.times.estimate(reads.perMs);
    pending.restart();
    const objects = await PlanObjects.make(device, plan, this.uniforms, pending, onProgress);
    if (this.closed) {
      objects.dispose();
      throw new SessionClosed("this session was closed");
    }
    this.objects = objects;
    this.clock = new Clock(device.gl, device.capabilities.software);
    await this.edits.restore(objects);
  }

  private async rebuild(): Promise<void> {
    this.objects = undefined;
    this.edits.lose();
    this.shown.fill(-1);
    this.carries.restart();
    this.flight = undefined; // it fails at its next check
    this.next = undefined;
    this.building = this.build(() => undefined);
    this.building.catch(() => undefined); // whoever runs or reads is told
    await this.building;
    await this.onRebuilt();
    if (this.sequence === 0) return;
    await this.run({ urgent: true });
    this.carries.forget(); // it was nobody's step
  }

  /** `finish` waits for what it reads: where a run is waited for anyway, it is called in place of that. */
  private launch(
    options: Asked,
    sections: readonly number[],
    finish?: Finish,
    again = false,
  ): Flight {
    const { version } = this.pending;
    // Textures that layers share hold old values meanwhile.
    if (again) for (const one of sections) this.shown[one] = -1;
    const { urgent = false } = options;
    const flight: Flight = { version, urgent, again, sections, result: NEVER };
    this.flight = flight;
    flight.result = this.execute(flight, options, finish);
    this.clear(flight);
    return flight;
  }

  private clear(flight: Flight): void {
    const clear = () => {
      if (this.flight === flight) this.flight = undefined;
    };
    flight.result.then(clear, clear);
  }

  /** Submits before its first await when all is ready, so that a draw right after shows the new values. */
  private async execute(flight: Flight, options: Asked, finish?: Finish): Promise<RunInfo> {
    if (this.objects === undefined) await this.building;
    if (this.pending.isFed && !this.feeding?.isReady) await this.prepareFeeding();
    const objects = this.ready();
    const { missing } = this.pending;
    if (missing.length > 0)
      throw new PlanError(`nothing was written to input ${listed(missing)} yet`);
    if (this.carries.pending && !(options.keep && this.version === this.pending.version)) {
      this.carries.apply(objects);
      this.pending.version += 1; // all that follows from the state is old
    }
    this.edits.flush(objects);
    const inputs = this.pending.flush(objects, this.feeding);
    flight.version = this.version = this.pending.version;
    const needed = this.sections.needed(flight.sections);
    const without = this.edits.without(needed, this.given);
    // A run without edits leaves none of what sections before it gave with them.
    if (without.length > 0) flight.without = this.given;
    const sections = needed.filter(
      (one) => without.length > 0 || flight.sections.includes(one) || !this.isShown([one]),
    );
    flight.sections = sections;
    const own = [...without, ...this.edits.passes(sections)];
    const passes = [...inputs, ...own];
    const isFirst = (pass: Pass) => objects.programs[pass.program]?.drawn === false;
    const builds = passes.some(isFirst);
    const ms = predict(passes, this.times.of(sections, own));
    const before = this.times.measured(sections, own);
    // How long pipelines take to build is a guess, and the page is held by what is in flight at the end.
    const slices = cut(passes, ms, isFirst, flight.urgent && !builds ? URGENT : FLUENT);
    const atOnce = flight.urgent ? URGENT.long : WALL_MS;
    const known = before !== undefined && before < atOnce && !builds;
    const { state } = this.device;
    const { works } = state;
    const submission = this.submission(flight, objects, finish, options.onProgress);
    const measured =
      known && slices.length === 1 && !this.clock.hasTimer
        ? runAtOnce(passes, submission)
        : await inSlices(slices, submission);
    const seen = slices.length > 1 && measured.clock === "fence";
    this.times.learn(sections, own, measured.ms, builds, seen);
    const alone = state.works - works === slices.flat().length;
    this.lastSections = sections;
    const which = { sequence: this.sequence, sections: this.sections.names(sections) };
    this.last = { ...measured, passes: passes.length, builds, alone, ...which };
    return this.last;
  }

  private submission(
    flight: Flight,
    objects: PlanObjects,
    finish?: Finish,
    onProgress: OnProgress = () => undefined,
  ): Submission {
    return {
      objects,
      clock: this.clock,
      finish,
      onProgress,
      check: () => {
        if (this.ready() !== objects) throw new ContextLostError();
      },
      isUrgent: () => flight.urgent,
      done: () => this.done(flight),
    };
  }

  /** All of a run is submitted, or done: the textures hold its values. */
  private done(flight: Flight): void {
    for (const one of flight.sections) this.shown[one] = flight.version;
    if (flight.without !== undefined) this.edits.hasKept(flight.sections, flight.without);
    if (flight.again) return;
    this.sequence += 1;
    this.carries.hasRun(flight.sections);
  }
}

const NEVER = new Promise<RunInfo>(() => undefined);
