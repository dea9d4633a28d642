// Writes, runs and reads a Plan on the device, and survives the loss of its context. No pictures here.

import { Carries } from "../plan/carries.ts";
import { checkPlan } from "../plan/check_plan.ts";
import { formatList } from "../plan/error_text.ts";
import { FLUENT_BUDGET, predictPassTimes, splitRun, URGENT_BUDGET } from "../plan/run_slices.ts";
import { RunTimeEstimate } from "../plan/run_time_estimate.ts";
import {
  ContextLostError,
  type ImageSource,
  type Patch,
  PlanError,
  type Progress,
  type RunInfo,
  type RunOptions,
  SessionClosed,
} from "../plan/runtime.ts";
import type { Pass, PlanHeader, Value } from "../plan/schema.ts";
import { Sections } from "../plan/sections.ts";
import type { GlDevice } from "./gl_device.ts";
import { GpuClock, readWhenIdle } from "./gpu_clock.ts";
import { NoEdits, type RunEdits, type SessionEditsClass } from "./no_edits.ts";
import { PictureUploader } from "./picture_upload.ts";
import { PlanObjects } from "./plan_objects.ts";
import type { SessionEdits } from "./session_edits.ts";
import { type ReadbackCallback, type Submission, submitAndWait, submitSlices } from "./submit.ts";
import { UploadQueue } from "./upload_queue.ts";

/**
 * A run that seemed this short (a fence is seen late) is waited for: no clock is better, and no frame is lost.
 * Somebody who waits for its numbers loses more with a fence: whatever is one slice is waited for then.
 */
const MAX_BLOCKING_MS = 16;

interface ActiveRun {
  /** Which writes it computes. */
  version: number;
  isUrgent: boolean;
  /** It computes what is there already, for the time that this takes. */
  readonly isRemeasure: boolean;
  sections: readonly number[];
  /** It runs without edits first, for these inputs and weights. */
  uneditedVersion?: number;
  result: Promise<RunInfo>;
}

interface InternalRunOptions extends RunOptions {
  /** What is there is computed anew, or brought up to date: a commit waits for the next step. */
  readonly keepState?: boolean;
}

/** What runs behind the flight, for all who asked meanwhile. */
interface QueuedRun extends Pick<ActiveRun, "sections" | "result"> {
  readonly options: InternalRunOptions;
}

type OnProgress = (progress: Progress) => void;

export class Runner {
  readonly plan: PlanHeader;
  sequence = 0;
  /** Called when the objects are made anew, before they run again. */
  onRebuilt: () => Promise<void> = async () => undefined;
  readonly device: GlDevice;
  /** Those of a network that is edited. */
  sessionEdits: SessionEdits | undefined;
  private readonly uniforms: Uint8Array;
  private readonly uploads: UploadQueue;
  private readonly removeListener: () => void;
  private buildTask: Promise<void> = Promise.resolve();
  private objects: PlanObjects | undefined;
  private clock: GpuClock;
  private readonly sections: Sections;
  private readonly carries: Carries;
  private pictureUploader: PictureUploader | undefined;
  private readonly noEdits: NoEdits;
  private readonly estimate: RunTimeEstimate;
  /** Of the writes whose values the textures hold, by section. */
  private readonly shownVersions: number[];
  /** Of the writes that the last run computed. */
  private lastVersion = -1;
  private activeRun: ActiveRun | undefined;
  private queuedRun: QueuedRun | undefined;
  private lastRun: RunInfo | undefined;
  /** What that was of. */
  private lastSections: readonly number[];
  private isClosed = false;

  private constructor(
    device: GlDevice,
    plan: PlanHeader,
    uniforms: Uint8Array,
    pending: UploadQueue,
  ) {
    this.device = device;
    this.plan = plan;
    this.uniforms = uniforms;
    this.uploads = pending;
    this.sections = new Sections(plan);
    this.carries = new Carries(plan);
    this.noEdits = new NoEdits(plan, this.sections);
    this.estimate = new RunTimeEstimate(plan.passes);
    this.shownVersions = plan.sections.map(() => -1);
    this.lastSections = this.sections.defaults;
    this.clock = new GpuClock(device.gl, device.capabilities.isSoftware);
    this.removeListener = device.onRebuild(() => this.rebuild());
  }

  static async create(
    device: GlDevice,
    plan: PlanHeader,
    uniforms: Uint8Array,
    weight: (hash: string) => Float32Array,
    onProgress: OnProgress = () => undefined,
  ): Promise<Runner> {
    checkPlan(plan, uniforms.byteLength, device.capabilities.target);
    device.check();
    const runner = new Runner(device, plan, uniforms, new UploadQueue(plan, weight));
    runner.buildTask = runner.build(onProgress);
    try {
      await runner.buildTask;
    } catch (error) {
      runner.dispose();
      throw error;
    }
    return runner;
  }

  get bytes(): number {
    return (this.objects?.bytes ?? 0) + (this.pictureUploader?.bytes ?? 0);
  }

  write(key: string, data: Float32Array): void {
    this.uploads.write(key, data);
  }

  feed(key: string, picture: ImageSource, mirrored: boolean): void {
    this.uploads.feed(key, { picture, mirrored });
  }

  setWeight(texture: number, data: Float32Array, hash?: string): void {
    this.uploads.setWeight(texture, data, hash);
    this.carries.discardRuns();
  }

  patchWeight(patch: Patch): void {
    this.uploads.patchWeight(patch);
    this.carries.discardRuns();
  }

  commit(): void {
    this.carries.commit();
  }

  /** The rows of all state as it is after the last commit, by texture; no run changes it meanwhile. */
  async committedState(): Promise<ReadonlyMap<number, Float32Array>> {
    const { device } = this;
    const objects = this.requireObjects();
    // Taken at once: what follows on the device comes behind it.
    const reads = this.carries.stateTextures.map(
      ([target, lies]) => [target, objects.readTextureRows(lies)] as const,
    );
    return readWhenIdle(device, () => new Map(reads.map(([target, read]) => [target, read()])));
  }

  run(options: InternalRunOptions = {}): Promise<RunInfo> {
    return this.requestRun(options, this.sections.select(options.section));
  }

  private requestRun(options: InternalRunOptions, sections: readonly number[]): Promise<RunInfo> {
    const { activeRun } = this;
    if (activeRun === undefined) return this.startRun(options, sections).result;
    const steps = this.carries.hasPendingCopies && !options.keepState;
    const has = sections.every((one) => activeRun.sections.includes(one));
    if (activeRun.version === this.uploads.version && has && !steps) {
      activeRun.isUrgent ||= options.urgent ?? false;
      return activeRun.result;
    }
    const before = this.queuedRun;
    const urgent = options.urgent || before?.options.urgent || false;
    const keepState = (options.keepState ?? false) && (before?.options.keepState ?? true);
    const again = () => {
      const { queuedRun } = this;
      this.queuedRun = undefined;
      return this.requestRun(
        queuedRun?.options ?? {},
        queuedRun?.sections ?? this.sections.defaults,
      );
    };
    this.queuedRun = {
      options: { ...before?.options, ...options, urgent, keepState },
      sections: [...new Set([...(before?.sections ?? []), ...sections])],
      result: before?.result ?? activeRun.result.then(again, again),
    };
    return this.queuedRun.result;
  }

  /** Milliseconds that the last run takes, as far as that is known. */
  get expectedMs(): number {
    return this.estimate.lowerBoundMs(this.lastSections, this.edits.passes(this.lastSections));
  }

  /** Computes what is there already, for the time that this takes; undefined where something new is to be run, or is. */
  remeasure(): Promise<RunInfo> | undefined {
    this.requireObjects();
    if (this.activeRun !== undefined || !this.isUpToDate(this.lastSections)) return undefined;
    // By a fence a short run seems long; once it is known to be short, it is waited for.
    const measured = this.estimate.measuredMs(
      this.lastSections,
      this.edits.passes(this.lastSections),
    );
    const urgent = measured !== undefined && measured < 2 * MAX_BLOCKING_MS;
    return this.startRun({ urgent, keepState: true }, this.lastSections, undefined, true).result;
  }

  private isUpToDate(sections: readonly number[]): boolean {
    return sections.every((one) => this.shownVersions[one] === this.uploads.version);
  }

  get edits(): RunEdits {
    return this.sessionEdits ?? this.noEdits;
  }

  /** Edits to change. The caller passes their class, so that runtime.js has no code of edits. */
  openEdits(Made: SessionEditsClass): SessionEdits {
    if (this.isClosed) throw new SessionClosed("this session was closed");
    const changed = () => {
      this.uploads.version += 1;
    };
    this.sessionEdits ??= new Made(this.device, this.plan, this.sections, changed, this.objects);
    return this.sessionEdits;
  }

  private async preparePictures(): Promise<void> {
    this.requireObjects();
    this.pictureUploader ??= new PictureUploader(this.device);
    await this.pictureUploader.prepare();
  }

  /** Which inputs, weights and state there are, whatever is edited. */
  private get unchangedVersion(): number {
    return this.uploads.version - this.edits.changeCount;
  }

  /** Brings what only looks at values up to date: by itself, where these are there, else with a run. */
  async refreshDerived(): Promise<void> {
    await this.buildTask;
    while (this.activeRun !== undefined) {
      await this.activeRun.result.then(
        () => undefined,
        () => undefined,
      );
    }
    if (this.sequence === 0) return;
    const objects = this.requireObjects();
    if (!this.isUpToDate(this.lastSections)) {
      await this.run({ keepState: true });
      return;
    }
    this.edits.applyNext(objects);
    for (const pass of this.edits.finalPasses) objects.draw(pass);
  }

  /** The objects, once they are built. */
  whenBuilt = (): Promise<PlanObjects> => this.buildTask.then(() => this.requireObjects());

  /** All of a run, with edits. */
  get passes(): readonly Pass[] {
    return this.edits.passes(this.sections.defaults);
  }

  /** How a value is read now: a state that is committed lies elsewhere until the next run. */
  readPass({ readback }: Value): Pass {
    return this.carries.redirectReads(readback.draw_pass);
  }

  /** Does `work` when `value`'s texture holds what the current inputs and weights give, and no run is on its way. */
  async whenFresh<T>(value: Value, work: (objects: PlanObjects) => T): Promise<T> {
    await this.buildTask;
    if (value.kind === "parameter" && this.uploads.missingInputs.length > 0) {
      this.uploads.flushWeights(this.requireObjects()); // no run was possible yet, so none is disturbed
      return work(this.requireObjects());
    }
    let done: { readonly result: T } | undefined;
    const finish = (objects: PlanObjects) => {
      done = { result: work(objects) };
    };
    const sections = [this.sections.sectionOf(this.edits.baseValue(value).texture)];
    while (!this.isUpToDate(sections)) {
      done = undefined;
      const options = { urgent: true, keepState: true };
      const flight = this.activeRun ?? this.startRun(options, sections, finish);
      if (this.isUpToDate(sections)) {
        flight.result.catch(() => undefined); // all is submitted; `work` sees a loss for itself
        break;
      }
      flight.isUrgent = true;
      const { version } = flight;
      const failed = (error: unknown) => {
        if (version === this.uploads.version) throw error;
      };
      await flight.result.then(() => undefined, failed);
    }
    return done === undefined
      ? work(this.requireObjects())
      : (done as { readonly result: T }).result;
  }

  /**
   * Does `work` while no run is on its way; runs asked for meanwhile wait for it. It may run passes
   * again: what they give is the same, but textures that several layers share hold old values then.
   */
  async runExclusive<T>(work: (objects: PlanObjects, clock: GpuClock) => Promise<T>): Promise<T> {
    await this.buildTask;
    const { defaults } = this.sections;
    while (this.activeRun !== undefined || !this.isUpToDate(defaults))
      await this.run({ keepState: true });
    const { lastRun } = this;
    if (lastRun === undefined) throw new PlanError("nothing was run yet");
    const { version } = this.uploads;
    const flight: ActiveRun = {
      version,
      isUrgent: false,
      isRemeasure: true,
      sections: defaults,
      result: NEVER_RESOLVES,
    };
    this.activeRun = flight;
    const working = work(this.requireObjects(), this.clock).finally(() =>
      this.restoreValues(flight),
    );
    const ended = () => lastRun;
    flight.result = working.then(ended, ended);
    this.clearWhenDone(flight);
    return working;
  }

  /** After passes ran by themselves: what a commit would copy is computed anew at once, all else when it is wanted. */
  private async restoreValues(flight: ActiveRun): Promise<void> {
    const { length } = this.plan.passes;
    if (length === new Set(this.plan.passes.map(({ output }) => output)).size) return;
    this.shownVersions.fill(-1);
    if (this.carries.isEmpty) return;
    const passes = this.edits.passes(this.sections.defaults);
    const ms = predictPassTimes(passes, this.estimate.expectedMs(this.sections.defaults, passes));
    await submitSlices(
      splitRun(passes, ms, () => false, FLUENT_BUDGET),
      this.submission(flight, this.requireObjects()),
    );
  }

  /** A value or parameter by name, as it lies now: what follows from edits too. */
  findValue(key: string): Value {
    const { values, parameters } = this.plan;
    const value = this.edits.findValue(key) ?? parameters.find((one) => one.key === key);
    if (value !== undefined) return value;
    const keys = values.map((one) => one.key);
    if (keys.includes(key))
      throw new PlanError(`${key} has no value: an active latent skips its layer`);
    throw new PlanError(`no value ${JSON.stringify(key)}; this network has ${formatList(keys)}`);
  }

  /** The Plan's objects; throws when they are gone. */
  requireObjects(): PlanObjects {
    if (this.isClosed) throw new SessionClosed("this session was closed");
    const { objects } = this;
    this.device.check(objects?.generation);
    if (objects === undefined) throw new ContextLostError();
    return objects;
  }

  dispose(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.edits.dispose();
    this.pictureUploader?.dispose();
    this.removeListener();
    this.objects?.dispose();
    this.objects = undefined;
  }

  private async build(onProgress: OnProgress): Promise<void> {
    const { device, uploads, plan } = this;
    const reads = await device.readSpeed();
    if (this.isClosed) throw new SessionClosed("this session was closed");
    this.estimate.calibrate(reads.readsPerMs);
    uploads.markAllDirty();
    const objects = await PlanObjects.create(device, plan, this.uniforms, uploads, onProgress);
    if (this.isClosed) {
      objects.dispose();
      throw new SessionClosed("this session was closed");
    }
    this.objects = objects;
    this.clock = new GpuClock(device.gl, device.capabilities.isSoftware);
    await this.edits.restore(objects);
  }

  private async rebuild(): Promise<void> {
    this.objects = undefined;
    this.edits.detachResources();
    this.shownVersions.fill(-1);
    this.carries.reset();
    this.activeRun = undefined; // it fails at its next check
    this.queuedRun = undefined;
    this.buildTask = this.build(() => undefined);
    this.buildTask.catch(() => undefined); // whoever runs or reads is told
    await this.buildTask;
    await this.onRebuilt();
    if (this.sequence === 0) return;
    await this.run({ urgent: true });
    this.carries.discardRuns(); // it was nobody's step
  }

  /** `finish` waits for what it reads: where a run is waited for anyway, it is called in place of that. */
  private startRun(
    options: InternalRunOptions,
    sections: readonly number[],
    finish?: ReadbackCallback,
    isRemeasure = false,
  ): ActiveRun {
    const { version } = this.uploads;
    // Textures that layers share hold old values meanwhile.
    if (isRemeasure) for (const one of sections) this.shownVersions[one] = -1;
    const { urgent: isUrgent = false } = options;
    const flight: ActiveRun = { version, isUrgent, isRemeasure, sections, result: NEVER_RESOLVES };
    this.activeRun = flight;
    flight.result = this.execute(flight, options, finish);
    this.clearWhenDone(flight);
    return flight;
  }

  private clearWhenDone(flight: ActiveRun): void {
    const clear = () => {
      if (this.activeRun === flight) this.activeRun = undefined;
    };
    flight.result.then(clear, clear);
  }

  /** Submits before its first await when all is ready, so that a draw right after shows the new values. */
  private async execute(
    flight: ActiveRun,
    options: InternalRunOptions,
    finish?: ReadbackCallback,
  ): Promise<RunInfo> {
    if (this.objects === undefined) await this.buildTask;
    if (this.uploads.hasNewPicture && !this.pictureUploader?.isReady) await this.preparePictures();
    const objects = this.requireObjects();
    const { missingInputs } = this.uploads;
    if (missingInputs.length > 0)
      throw new PlanError(`nothing was written to input ${formatList(missingInputs)} yet`);
    if (
      this.carries.hasPendingCopies &&
      !(options.keepState && this.lastVersion === this.uploads.version)
    ) {
      this.carries.copyCommitted(objects);
      this.uploads.version += 1; // all that follows from the state is old
    }
    this.edits.applyNext(objects);
    const inputs = this.uploads.flush(objects, this.pictureUploader);
    flight.version = this.lastVersion = this.uploads.version;
    const needed = this.sections.requiredSections(flight.sections);
    const without = this.edits.uneditedPasses(needed, this.unchangedVersion);
    // A run without edits leaves none of what sections before it gave with them.
    if (without.length > 0) flight.uneditedVersion = this.unchangedVersion;
    const sections = needed.filter(
      (one) => without.length > 0 || flight.sections.includes(one) || !this.isUpToDate([one]),
    );
    flight.sections = sections;
    const own = [...without, ...this.edits.passes(sections)];
    const passes = [...inputs, ...own];
    const isFirst = (pass: Pass) => objects.programs[pass.program]?.hasDrawn === false;
    const hasBuiltPipelines = passes.some(isFirst);
    const ms = predictPassTimes(passes, this.estimate.expectedMs(sections, own));
    const before = this.estimate.measuredMs(sections, own);
    // How long pipelines take to build is a guess, and the page is held by what is in flight at the end.
    const slices = splitRun(
      passes,
      ms,
      isFirst,
      flight.isUrgent && !hasBuiltPipelines ? URGENT_BUDGET : FLUENT_BUDGET,
    );
    const atOnce = flight.isUrgent ? URGENT_BUDGET.maxUnslicedMs : MAX_BLOCKING_MS;
    const known = before !== undefined && before < atOnce && !hasBuiltPipelines;
    const { state } = this.device;
    const { workCount } = state;
    const submission = this.submission(flight, objects, finish, options.onProgress);
    const measured =
      known && slices.length === 1 && !this.clock.hasTimer
        ? submitAndWait(passes, submission)
        : await submitSlices(slices, submission);
    const seen = slices.length > 1 && measured.clock === "fence";
    this.estimate.record(sections, own, measured.ms, hasBuiltPipelines, seen);
    const isExclusive = state.workCount - workCount === slices.flat().length;
    this.lastSections = sections;
    const which = { sequence: this.sequence, sections: this.sections.namesOf(sections) };
    this.lastRun = { ...measured, passes: passes.length, hasBuiltPipelines, isExclusive, ...which };
    return this.lastRun;
  }

  private submission(
    flight: ActiveRun,
    objects: PlanObjects,
    readBack?: ReadbackCallback,
    onProgress: OnProgress = () => undefined,
  ): Submission {
    return {
      objects,
      clock: this.clock,
      readBack,
      onProgress,
      check: () => {
        if (this.requireObjects() !== objects) throw new ContextLostError();
      },
      isUrgent: () => flight.isUrgent,
      onSubmitted: () => this.markDone(flight),
    };
  }

  /** All of a run is submitted, or done: the textures hold its values. */
  private markDone(flight: ActiveRun): void {
    for (const one of flight.sections) this.shownVersions[one] = flight.version;
    if (flight.uneditedVersion !== undefined)
      this.edits.markKept(flight.sections, flight.uneditedVersion);
    if (flight.isRemeasure) return;
    this.sequence += 1;
    this.carries.markRun(flight.sections);
  }
}

const NEVER_RESOLVES = new Promise<RunInfo>(() => undefined);
