// Writes, runs and reads a Plan on the GPU, and restores it after a context loss. Contains no drawing of pictures.

import { Carries } from "../plan/carries.ts";
import { checkPlan } from "../plan/check_plan.ts";
import { formatList } from "../plan/error_text.ts";
import {
  predictPassTimes,
  SMOOTH_SLICE_BUDGET,
  splitRun,
  URGENT_SLICE_BUDGET,
} from "../plan/run_slices.ts";
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
import {
  type ReadbackCallback,
  type Submission,
  submitAndWait,
  submitSlices,
} from "./run_submission.ts";
import type { SessionEdits } from "./session_edits.ts";
import { UploadQueue } from "./upload_queue.ts";

/**
 * A run with a shorter measured time (fences report late) is waited for synchronously: that is the most accurate clock,
 * and no frame is lost. For an urgent run a fence would cost more, so any run that fits one slice is waited for
 * synchronously.
 */
const MAX_BLOCKING_MS = 16;

interface ActiveRun {
  /** The write version that it computes. */
  writeVersion: number;
  isUrgent: boolean;
  /** The run recomputes current values, only to measure its time. */
  readonly isRemeasure: boolean;
  sections: readonly number[];
  /** The version of inputs and weights for which it first runs without edits. */
  uneditedVersion?: number;
  result: Promise<RunInfo>;
}

interface InternalRunOptions extends RunOptions {
  /** Recompute or update the current values; a pending commit waits for the next step. */
  readonly keepState?: boolean;
}

/** The run after the active one, shared by all callers meanwhile. */
interface QueuedRun extends Pick<ActiveRun, "sections" | "result"> {
  readonly options: InternalRunOptions;
}

type OnProgress = (progress: Progress) => void;

export class Runner {
  readonly plan: PlanHeader;
  sequence = 0;
  /** Called after the objects are rebuilt, before they run again. */
  onRebuilt: () => Promise<void> = async () => undefined;
  readonly device: GlDevice;
  /** The edits, if the network is edited. */
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
  /** The write version whose values the textures hold, by section. */
  private readonly computedVersions: number[];
  /** The write version that the last run computed. */
  private lastVersion = -1;
  private activeRun: ActiveRun | undefined;
  private queuedRun: QueuedRun | undefined;
  private lastRun: RunInfo | undefined;
  /** The sections of the last run. */
  private lastSections: readonly number[];
  private isClosed = false;

  private constructor(
    device: GlDevice,
    plan: PlanHeader,
    uniforms: Uint8Array,
    uploads: UploadQueue,
  ) {
    this.device = device;
    this.plan = plan;
    this.uniforms = uniforms;
    this.uploads = uploads;
    this.sections = new Sections(plan);
    this.carries = new Carries(plan);
    this.noEdits = new NoEdits(plan, this.sections);
    this.estimate = new RunTimeEstimate(plan.passes);
    this.computedVersions = plan.sections.map(() => -1);
    this.lastSections = this.sections.defaultSections;
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
    this.carries.discardUncommittedRuns();
  }

  patchWeight(patch: Patch): void {
    this.uploads.patchWeight(patch);
    this.carries.discardUncommittedRuns();
  }

  commit(): void {
    this.carries.commit();
  }

  /** The rows of all state after the last commit, by texture; no run changes the state meanwhile. */
  async committedState(): Promise<ReadonlyMap<number, Float32Array>> {
    const { device } = this;
    const objects = this.requireObjects();
    // Queue the reads now: later GPU work comes after them.
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
    if (activeRun.writeVersion === this.uploads.writeVersion && has && !steps) {
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
        queuedRun?.sections ?? this.sections.defaultSections,
      );
    };
    this.queuedRun = {
      options: { ...before?.options, ...options, urgent, keepState },
      sections: [...new Set([...(before?.sections ?? []), ...sections])],
      result: before?.result ?? activeRun.result.then(again, again),
    };
    return this.queuedRun.result;
  }

  /** The expected milliseconds of the last run, as far as known. */
  get expectedRunMs(): number {
    return this.estimate.lowerBoundMs(this.lastSections, this.edits.passes(this.lastSections));
  }

  /** Recompute the current values to measure the time; undefined if a run is active or values are outdated. */
  remeasure(): Promise<RunInfo> | undefined {
    this.requireObjects();
    if (this.activeRun !== undefined || !this.isUpToDate(this.lastSections)) return undefined;
    // Measured by a fence, a short run seems long; once a run is known to be short, it is waited for synchronously.
    const measured = this.estimate.measuredMs(
      this.lastSections,
      this.edits.passes(this.lastSections),
    );
    const urgent = measured !== undefined && measured < 2 * MAX_BLOCKING_MS;
    return this.startRun({ urgent, keepState: true }, this.lastSections, undefined, true).result;
  }

  private isUpToDate(sections: readonly number[]): boolean {
    return sections.every((one) => this.computedVersions[one] === this.uploads.writeVersion);
  }

  get edits(): RunEdits {
    return this.sessionEdits ?? this.noEdits;
  }

  /**
   * The edits, created on first use. The caller passes their class, so that runtime.js does not contain the code of
   * edits.
   */
  openEdits(EditsClass: SessionEditsClass): SessionEdits {
    if (this.isClosed) throw new SessionClosed("this session was closed");
    const changed = () => {
      this.uploads.writeVersion += 1;
    };
    this.sessionEdits ??= new EditsClass(
      this.device,
      this.plan,
      this.sections,
      changed,
      this.objects,
    );
    return this.sessionEdits;
  }

  private async preparePictures(): Promise<void> {
    this.requireObjects();
    this.pictureUploader ??= new PictureUploader(this.device);
    await this.pictureUploader.prepare();
  }

  /** The version of inputs, weights and state, independent of edits. */
  private get uneditedVersion(): number {
    return this.uploads.writeVersion - this.edits.changeCount;
  }

  /** Update values that only observe others: by their own passes if the observed values are current, else by a run. */
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

  /** Resolve to the objects, once they are built. */
  whenBuilt = (): Promise<PlanObjects> => this.buildTask.then(() => this.requireObjects());

  /** All passes of a run, with edits. */
  get passes(): readonly Pass[] {
    return this.edits.passes(this.sections.defaultSections);
  }

  /** The pass that reads a value back; a committed state is in another texture until the next run. */
  readbackPass({ readback }: Value): Pass {
    return this.carries.redirectReads(readback.draw_pass);
  }

  /** Call `work` when `value`'s texture holds the result of the current inputs and weights, and no run is in flight. */
  async whenFresh<T>(value: Value, work: (objects: PlanObjects) => T): Promise<T> {
    await this.buildTask;
    if (value.kind === "parameter" && this.uploads.missingInputs.length > 0) {
      this.uploads.flushWeights(this.requireObjects()); // nothing has run yet: no run is disturbed
      return work(this.requireObjects());
    }
    let done: { readonly result: T } | undefined;
    const readBack = (objects: PlanObjects) => {
      done = { result: work(objects) };
    };
    const sections = [this.sections.sectionOf(this.edits.baseValue(value).texture)];
    while (!this.isUpToDate(sections)) {
      done = undefined;
      const options = { urgent: true, keepState: true };
      const activeRun = this.activeRun ?? this.startRun(options, sections, readBack);
      if (this.isUpToDate(sections)) {
        activeRun.result.catch(() => undefined); // all is submitted; `work` detects a lost context
        break;
      }
      activeRun.isUrgent = true;
      const { writeVersion } = activeRun;
      const failed = (error: unknown) => {
        if (writeVersion === this.uploads.writeVersion) throw error;
      };
      await activeRun.result.then(() => undefined, failed);
    }
    return done === undefined
      ? work(this.requireObjects())
      : (done as { readonly result: T }).result;
  }

  /**
   * Call `work` while no run is in flight; runs requested meanwhile wait for it. `work` may repeat passes: their
   * results are the same, but textures that several layers share then hold outdated values.
   */
  async runExclusive<T>(work: (objects: PlanObjects, clock: GpuClock) => Promise<T>): Promise<T> {
    await this.buildTask;
    const { defaultSections } = this.sections;
    while (this.activeRun !== undefined || !this.isUpToDate(defaultSections))
      await this.run({ keepState: true });
    const { lastRun } = this;
    if (lastRun === undefined) throw new PlanError("nothing was run yet");
    const { writeVersion } = this.uploads;
    const activeRun: ActiveRun = {
      writeVersion,
      isUrgent: false,
      isRemeasure: true,
      sections: defaultSections,
      result: NEVER_RESOLVES,
    };
    this.activeRun = activeRun;
    const working = work(this.requireObjects(), this.clock).finally(() =>
      this.restoreValues(activeRun),
    );
    const ended = () => lastRun;
    activeRun.result = working.then(ended, ended);
    this.clearWhenDone(activeRun);
    return working;
  }

  /**
   * After passes were run individually: recompute at once the values that a commit would copy, and all others on
   * demand.
   */
  private async restoreValues(activeRun: ActiveRun): Promise<void> {
    const { length } = this.plan.passes;
    if (length === new Set(this.plan.passes.map(({ output }) => output)).size) return;
    this.computedVersions.fill(-1);
    if (this.carries.isEmpty) return;
    const passes = this.edits.passes(this.sections.defaultSections);
    const ms = predictPassTimes(
      passes,
      this.estimate.expectedMs(this.sections.defaultSections, passes),
    );
    await submitSlices(
      splitRun(passes, ms, () => false, SMOOTH_SLICE_BUDGET),
      this.createSubmission(activeRun, this.requireObjects()),
    );
  }

  /** Find a value or parameter by name, at its current location; includes values derived from edits. */
  findValue(key: string): Value {
    const { values, parameters } = this.plan;
    const value = this.edits.findValue(key) ?? parameters.find((one) => one.key === key);
    if (value !== undefined) return value;
    const keys = values.map((one) => one.key);
    if (keys.includes(key))
      throw new PlanError(`${key} has no value: an active latent skips its layer`);
    throw new PlanError(`no value ${JSON.stringify(key)}; this network has ${formatList(keys)}`);
  }

  /** The Plan's objects; throws if the session is closed or the context is lost. */
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
    const reads = await device.getTextureReadSpeed();
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
    this.computedVersions.fill(-1);
    this.carries.reset();
    this.activeRun = undefined; // it fails at its next check
    this.queuedRun = undefined;
    this.buildTask = this.build(() => undefined);
    this.buildTask.catch(() => undefined); // runs and reads await it and get the error
    await this.buildTask;
    await this.onRebuilt();
    if (this.sequence === 0) return;
    await this.run({ urgent: true });
    this.carries.discardUncommittedRuns(); // the repeated run is no step of the state
  }

  /** `readBack` reads back and blocks: if the run is waited for synchronously anyway, this replaces the wait. */
  private startRun(
    options: InternalRunOptions,
    sections: readonly number[],
    readBack?: ReadbackCallback,
    isRemeasure = false,
  ): ActiveRun {
    const { writeVersion } = this.uploads;
    // Textures that layers share hold outdated values meanwhile.
    if (isRemeasure) for (const one of sections) this.computedVersions[one] = -1;
    const { urgent: isUrgent = false } = options;
    const activeRun: ActiveRun = {
      writeVersion,
      isUrgent,
      isRemeasure,
      sections,
      result: NEVER_RESOLVES,
    };
    this.activeRun = activeRun;
    activeRun.result = this.execute(activeRun, options, readBack);
    this.clearWhenDone(activeRun);
    return activeRun;
  }

  private clearWhenDone(activeRun: ActiveRun): void {
    const clear = () => {
      if (this.activeRun === activeRun) this.activeRun = undefined;
    };
    activeRun.result.then(clear, clear);
  }

  /** Submit before the first await if everything is ready, so that a draw right after shows the new values. */
  private async execute(
    activeRun: ActiveRun,
    options: InternalRunOptions,
    readBack?: ReadbackCallback,
  ): Promise<RunInfo> {
    if (this.objects === undefined) await this.buildTask;
    if (this.uploads.hasNewPicture && !this.pictureUploader?.isReady) await this.preparePictures();
    const objects = this.requireObjects();
    const { missingInputs } = this.uploads;
    if (missingInputs.length > 0)
      throw new PlanError(`nothing was written to input ${formatList(missingInputs)} yet`);
    if (
      this.carries.hasPendingCopies &&
      !(options.keepState && this.lastVersion === this.uploads.writeVersion)
    ) {
      this.carries.copyCommitted(objects);
      this.uploads.writeVersion += 1; // all values that depend on the state are outdated
    }
    this.edits.applyNext(objects);
    const inputs = this.uploads.flush(objects, this.pictureUploader);
    activeRun.writeVersion = this.lastVersion = this.uploads.writeVersion;
    const needed = this.sections.requiredSections(activeRun.sections);
    const uneditedPasses = this.edits.uneditedPasses(needed, this.uneditedVersion);
    // Unedited passes overwrite the edited values of all required sections, so these sections run again.
    if (uneditedPasses.length > 0) activeRun.uneditedVersion = this.uneditedVersion;
    const sections = needed.filter(
      (one) =>
        uneditedPasses.length > 0 || activeRun.sections.includes(one) || !this.isUpToDate([one]),
    );
    activeRun.sections = sections;
    const own = [...uneditedPasses, ...this.edits.passes(sections)];
    const passes = [...inputs, ...own];
    const isFirst = (pass: Pass) => objects.programs[pass.program]?.hasDrawn === false;
    const hasBuiltPipelines = passes.some(isFirst);
    const ms = predictPassTimes(passes, this.estimate.expectedMs(sections, own));
    const before = this.estimate.measuredMs(sections, own);
    // Pipeline build times are unpredictable, and slices in flight at the end block the page: runs that build pipelines
    // use SMOOTH_SLICE_BUDGET.
    const slices = splitRun(
      passes,
      ms,
      isFirst,
      activeRun.isUrgent && !hasBuiltPipelines ? URGENT_SLICE_BUDGET : SMOOTH_SLICE_BUDGET,
    );
    const atOnce = activeRun.isUrgent ? URGENT_SLICE_BUDGET.maxUnslicedMs : MAX_BLOCKING_MS;
    const known = before !== undefined && before < atOnce && !hasBuiltPipelines;
    const { state } = this.device;
    const { workCount } = state;
    const submission = this.createSubmission(activeRun, objects, readBack, options.onProgress);
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

  private createSubmission(
    activeRun: ActiveRun,
    objects: PlanObjects,
    readBack?: ReadbackCallback,
    onProgress: OnProgress = () => undefined,
  ): Submission {
    return {
      objects,
      clock: this.clock,
      readBack,
      onProgress,
      throwIfCancelled: () => {
        if (this.requireObjects() !== objects) throw new ContextLostError();
      },
      isUrgent: () => activeRun.isUrgent,
      onSubmitted: () => this.markDone(activeRun),
    };
  }

  /** All passes of a run are submitted, or done: the textures hold its values. */
  private markDone(activeRun: ActiveRun): void {
    for (const one of activeRun.sections) this.computedVersions[one] = activeRun.writeVersion;
    if (activeRun.uneditedVersion !== undefined)
      this.edits.markUneditedRun(activeRun.sections, activeRun.uneditedVersion);
    if (activeRun.isRemeasure) return;
    this.sequence += 1;
    this.carries.markRun(activeRun.sections);
  }
}

const NEVER_RESOLVES = new Promise<RunInfo>(() => undefined);
