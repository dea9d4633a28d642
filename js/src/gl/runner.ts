// Writes, runs and reads a Plan on the device, and survives the loss of its context. No pictures here.
import type { Pass, PlanHeader, Value } from "../plan.ts";
import { checkPlan } from "./check.ts";
import { Clock, finished, type Mark, type Measured, whenDone } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { listed } from "./messages.ts";
import { PlanObjects } from "./objects.ts";
import { Pending } from "./pending.ts";
import { cut, type Draw, FLUENT, hidden, predict, URGENT } from "./schedule.ts";
import {
  type Band,
  ContextLostError,
  PlanError,
  type Progress,
  type RunInfo,
  type RunOptions,
  SessionClosed,
} from "./types.ts";

/**
 * A run that seemed this short (a fence is seen late) is waited for: no clock is better, and no frame is lost.
 * Somebody who waits for its numbers loses more with a fence: whatever is one slice is waited for then.
 */
const WALL_MS = 16;
/** Slices that are submitted and not finished. */
const IN_FLIGHT = 2;

interface Flight {
  /** Which writes it computes. */
  version: number;
  urgent: boolean;
  /** It computes what is there already, for the time that this takes. */
  readonly again?: boolean;
  result: Promise<RunInfo>;
}

type Finish = (objects: PlanObjects) => void;
type OnProgress = (progress: Progress) => void;

export class Runner {
  readonly plan: PlanHeader;
  sequence = 0;
  /** Called when the objects are made anew, before they run again. */
  onRebuilt: () => Promise<void> = async () => undefined;
  private readonly device: GlDevice;
  private readonly uniforms: Uint8Array;
  private readonly pending: Pending;
  private readonly undo: () => void;
  private building: Promise<void> = Promise.resolve();
  private objects: PlanObjects | undefined;
  private clock: Clock;
  /** Of the writes whose values the textures hold. */
  private shown = -1;
  private flight: Flight | undefined;
  private next: Promise<RunInfo> | undefined;
  private nextOptions: RunOptions = {};
  /** Milliseconds of the last run that built no pipeline. */
  private measured: number | undefined;
  /** Before there is such a run: by the passes' costs, and no more than what was seen. */
  private estimate = Number.POSITIVE_INFINITY;
  private last: RunInfo | undefined;
  private closed = false;

  private constructor(device: GlDevice, plan: PlanHeader, uniforms: Uint8Array, pending: Pending) {
    this.device = device;
    this.plan = plan;
    this.uniforms = uniforms;
    this.pending = pending;
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
    return this.objects?.bytes ?? 0;
  }

  write(key: string, data: Float32Array): void {
    this.pending.write(key, data);
  }

  setWeight(texture: number, data: Float32Array, hash?: string): void {
    this.pending.setWeight(texture, data, hash);
  }

  run(options: RunOptions = {}): Promise<RunInfo> {
    const { flight } = this;
    if (flight === undefined) return this.launch(options).result;
    if (flight.version === this.pending.version) {
      flight.urgent ||= options.urgent ?? false;
      return flight.result;
    }
    const urgent = options.urgent || this.nextOptions.urgent || false;
    this.nextOptions = { ...this.nextOptions, ...options, urgent };
    const again = () => {
      const inherited = this.nextOptions;
      this.next = undefined;
      this.nextOptions = {};
      return this.run(inherited);
    };
    this.next ??= flight.result.then(again, again);
    return this.next;
  }

  /** Milliseconds that a run takes, as far as that is known. */
  get expected(): number {
    return Math.min(this.measured ?? this.estimate, this.estimate);
  }

  /** Computes what is there already, for the time that this takes; undefined where something new is to be run, or is. */
  again(): Promise<RunInfo> | undefined {
    this.ready();
    if (this.flight !== undefined || this.shown !== this.pending.version) return undefined;
    // By a fence a short run seems long; once it is known to be short, it is waited for.
    const urgent = this.measured !== undefined && this.measured < 2 * WALL_MS;
    return this.launch({ urgent }, undefined, true).result;
  }

  async read(key: string): Promise<Float32Array> {
    const value = this.find(key);
    await this.warm(value);
    return this.whenFresh(value, (objects) => {
      objects.draw(value.read.step);
      const data = objects.read(value.read.step);
      return data.length === value.read.count ? data : data.slice(0, value.read.count);
    });
  }

  async sample(key: string, bands: readonly Band[]): Promise<Float32Array<ArrayBuffer>> {
    const value = this.find(key);
    const { step } = value.read;
    const [width, height] = step.viewport;
    const inside = bands.every(
      ([x, y, w, h = 1]) => w >= 1 && h >= 1 && x + w <= width && y + h <= height,
    );
    if (!inside) throw new PlanError(`there are ${width} × ${height} texels of ${key} to sample`);
    await this.warm(value);
    return this.whenFresh(value, (objects) => {
      // Taken also where a new input makes them useless: what they lie in goes with that.
      const read = objects.sample(step, bands);
      const data = whenDone(this.device, read);
      data.catch(() => undefined);
      return data;
    });
  }

  /** The first draw of a program builds its pipeline: reading right behind it would hold the page so long. */
  private async warm({ read }: Value): Promise<void> {
    await this.building;
    const objects = this.ready();
    if (objects.programs[read.step.program]?.drawn !== false) return;
    objects.draw(read.step, [0, 0, 1, 1]);
    await finished(this.device);
  }

  /** Does `work` when `value`'s texture holds what the current inputs and weights give, and no run is on its way. */
  async whenFresh<T>(value: Value, work: (objects: PlanObjects) => T): Promise<T> {
    await this.building;
    if (value.kind === "parameter" && this.pending.missing.length > 0) {
      this.pending.flush(this.ready()); // no run was possible yet, so none is disturbed
      return work(this.ready());
    }
    let done: { readonly result: T } | undefined;
    const finish = (objects: PlanObjects) => {
      done = { result: work(objects) };
    };
    while (this.shown !== this.pending.version) {
      done = undefined;
      const flight = this.flight ?? this.launch({ urgent: true }, finish);
      if (this.shown === this.pending.version) {
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
    while (this.flight !== undefined || this.shown !== this.pending.version) await this.run();
    const { last } = this;
    if (last === undefined) throw new PlanError("nothing was run yet");
    const flight: Flight = { version: this.shown, urgent: false, result: NEVER };
    this.flight = flight;
    const working = work(this.ready(), this.clock);
    const clear = (): RunInfo => {
      if (this.flight === flight) this.flight = undefined;
      if (this.plan.passes.length > new Set(this.plan.passes.map(({ output }) => output)).size) {
        this.shown = -1;
      }
      return last;
    };
    flight.result = working.then(clear, clear);
    return working;
  }

  /** A value or parameter by name. */
  find(key: string): Value {
    const { values, parameters } = this.plan;
    const is = (value: Value) => value.key === key;
    const value = values.find(is) ?? parameters.find(is);
    if (value !== undefined) return value;
    const keys = listed(values.map((one) => one.key));
    throw new PlanError(`no value ${JSON.stringify(key)}; this network has ${keys}`);
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
    this.undo();
    this.objects?.dispose();
    this.objects = undefined;
  }

  private async build(onProgress: OnProgress): Promise<void> {
    const { device, pending, plan } = this;
    const reads = await device.measured();
    if (this.closed) throw new SessionClosed("this session was closed");
    const cost = plan.passes.reduce((sum, pass) => sum + pass.cost, 0);
    this.estimate = Math.min(this.estimate, cost / reads.perMs);
    pending.restart();
    const objects = await PlanObjects.make(device, plan, this.uniforms, pending, onProgress);
    if (this.closed) {
      objects.dispose();
      throw new SessionClosed("this session was closed");
    }
    this.objects = objects;
    this.clock = new Clock(device.gl, device.capabilities.software);
  }

  private async rebuild(): Promise<void> {
    this.objects = undefined;
    this.shown = -1;
    this.flight = undefined; // it fails at its next check
    this.next = undefined;
    this.building = this.build(() => undefined);
    this.building.catch(() => undefined); // whoever runs or reads is told
    await this.building;
    await this.onRebuilt();
    if (this.sequence > 0) await this.run({ urgent: true });
  }

  /** `finish` waits for what it reads: where a run is waited for anyway, it is called in place of that. */
  private launch(options: RunOptions, finish?: Finish, again = false): Flight {
    const { version } = this.pending;
    if (again) this.shown = -1; // textures that layers share hold old values meanwhile
    const flight: Flight = { version, urgent: options.urgent ?? false, again, result: NEVER };
    this.flight = flight;
    flight.result = this.execute(flight, options, finish);
    const clear = () => {
      if (this.flight === flight) this.flight = undefined;
    };
    flight.result.then(clear, clear);
    return flight;
  }

  /** Submits before its first await when all is ready, so that a draw right after shows the new values. */
  private async execute(flight: Flight, options: RunOptions, finish?: Finish): Promise<RunInfo> {
    if (this.objects === undefined) await this.building;
    const objects = this.ready();
    const { missing } = this.pending;
    if (missing.length > 0)
      throw new PlanError(`nothing was written to input ${listed(missing)} yet`);
    const passes = [...this.pending.flush(objects), ...this.plan.passes];
    flight.version = this.pending.version;
    const isFirst = (pass: Pass) => objects.programs[pass.program]?.drawn === false;
    const builds = passes.some(isFirst);
    const ms = predict(passes, this.measured ?? this.estimate);
    // How long pipelines take to build is a guess, and the page is held by what is in flight at the end.
    const slices = cut(passes, ms, isFirst, flight.urgent && !builds ? URGENT : FLUENT);
    const atOnce = flight.urgent ? URGENT.long : WALL_MS;
    const known = this.measured !== undefined && this.measured < atOnce && !builds;
    const { state } = this.device;
    const { works } = state;
    const measured =
      known && slices.length === 1 && !this.clock.hasTimer
        ? this.runAtOnce(passes, flight, objects, finish)
        : await this.runInSlices(slices, flight, objects, options.onProgress, finish);
    if (builds) this.estimate = Math.min(this.estimate, measured.ms);
    else this.measured = measured.ms;
    const alone = state.works - works === slices.flat().length;
    this.last = { ...measured, passes: passes.length, builds, alone, sequence: this.sequence };
    return this.last;
  }

  private runAtOnce(
    passes: readonly Pass[],
    flight: Flight,
    objects: PlanObjects,
    finish: Finish = () => {
      const last = passes.at(-1);
      if (last !== undefined) objects.read(last, 1, 1); // returns when all is done
    },
  ): Measured {
    const start = performance.now();
    for (const pass of passes) objects.draw(pass);
    finish(objects);
    this.commit(flight);
    return { ms: performance.now() - start, clock: "wall" };
  }

  private async runInSlices(
    slices: readonly Draw[][],
    flight: Flight,
    objects: PlanObjects,
    onProgress: OnProgress = () => undefined,
    finish?: Finish,
  ): Promise<Measured> {
    const { clock } = this;
    const single = slices.length === 1;
    const marks: Mark[] = [];
    let passed = 0;
    const check = () => {
      if (this.ready() !== objects) throw new ContextLostError();
    };
    const pass = async (mark: Mark | undefined) => {
      // A single slice takes less than a frame or three: timers see its end sooner.
      if (mark !== undefined) await clock.passed(mark, () => single || flight.urgent, check);
      passed += 1;
      onProgress({ stage: "run", done: passed, total: slices.length });
    };
    try {
      for (const slice of slices) {
        // A hidden page has nothing to keep fluent, and its timers are slow.
        while (marks.length - passed >= IN_FLIGHT && !hidden()) await pass(marks[passed]);
        clock.begin();
        for (const { step, band } of slice) objects.draw(step, band);
        marks.push(clock.end());
      }
      if (single) this.commit(flight);
      else if (finish !== undefined) {
        // What is still in flight is short, and the read that somebody waits for is its end: no fence is as quick.
        check();
        this.commit(flight);
        finish(objects);
        while (passed < marks.length) clock.drop(marks[passed++]);
      }
      while (passed < marks.length) await pass(marks[passed]);
    } finally {
      for (const mark of marks.slice(passed)) clock.drop(mark); // of a run that nobody waits for
    }
    const end = performance.now();
    if (!single && finish === undefined) this.commit(flight);
    return clock.total(marks, end, check);
  }

  private commit(flight: Flight): void {
    this.shown = flight.version;
    if (!flight.again) this.sequence += 1;
  }
}

const NEVER = new Promise<RunInfo>(() => undefined);
