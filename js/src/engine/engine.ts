// Engine that runs a Plan in the page: device, session, weights, inputs, run loop and timing. It depends on neither
// Python nor the views.
import { batch } from "@preact/signals";
import type { Edit } from "../plan/edits.ts";
import { parseHeaderAndUniforms } from "../plan/plan_file.ts";
import { requiredInputs } from "../plan/required_inputs.ts";
import {
  type Device,
  DeviceUnavailable,
  type ImageSource,
  PlanError,
  type Runtime,
  type Session,
  SessionClosed,
} from "../plan/runtime.ts";
import type { Input, PlanHeader } from "../plan/schema.ts";
import { pageStore } from "./page_store.ts";
import { RequestedEdits } from "./requested_edits.ts";
import { watchRunRate } from "./run_rate.ts";
import { createRunTimer, type RunTimer } from "./run_timing.ts";
import { createSignals, type EngineSignals } from "./signals.ts";
import type {
  Engine,
  EngineEvents,
  InputOverride,
  NetworkContent,
  ShowOptions,
  WeightDataByTexture,
} from "./types.ts";
import { type EqualExamples, findEqualExamples } from "./value_samples.ts";

/**
 * Limit in bytes up to which the old session stays alive until a new Plan has run. Meanwhile the device keeps the
 * programs and weights that both Plans share, and views keep their pictures. Beyond the limit the old session is closed
 * first.
 */
const MAX_SESSION_OVERLAP_BYTES = 2 ** 28;

export const createEngine = (runtime: Runtime, events: EngineEvents): Engine =>
  new PlanEngine(runtime, events);

class PlanEngine implements Engine {
  readonly signals: EngineSignals = createSignals();
  readonly device: Device | undefined;
  readonly deviceError: DeviceUnavailable | undefined;
  runCount = 0;
  contextLosses = 0;
  currentContent: NetworkContent | undefined;
  private readonly store = pageStore();
  private readonly runtime: Runtime;
  private readonly events: EngineEvents;
  private readonly cleanups: (() => void)[] = [];
  private readonly timing: RunTimer;
  private loaded:
    | { readonly session: Session; content: NetworkContent; fed: InputOverride | null }
    | undefined;
  /** Replaces one of the content's inputs. */
  private inputOverride: InputOverride | null = null;
  /** Edits to apply to any network that is shown. */
  private readonly requestedEdits: RequestedEdits;
  /** A Plan whose programs are compiled before it is shown, and the callback that releases them. */
  private compiledAhead:
    | { readonly planHash: string; readonly undo: Promise<() => void> }
    | undefined;
  private requestedContent: NetworkContent | undefined;
  private lastTask: Promise<void> = Promise.resolve();
  private isUrgent = false;
  /** The section of the Plan to run; undefined for the whole Plan. */
  private requestedSection: string | undefined;
  /** Whether all sections have run. */
  private hasRunAllSections = true;
  /** The session of the run in flight. */
  private runningSession: Session | undefined;
  private mountedViews = 0;
  private isClosed = false;
  /** Cached equal examples for these inputs. */
  private equalExamplesCache:
    | { readonly inputs: readonly string[]; readonly twins: EqualExamples | undefined }
    | undefined;

  constructor(runtime: Runtime, events: EngineEvents) {
    this.runtime = runtime;
    this.events = events;
    this.requestedEdits = new RequestedEdits(this.store, (left) => events.onSkippedEdits?.(left));
    this.timing = createRunTimer(this.signals, {
      hasViews: () => this.mountedViews > 0,
      isBusy: () => events.isBusy(),
      onRunTimed: (run) => events.onRunTimed(run),
    });
    this.cleanups.push(
      watchRunRate(this.signals, (running, runsPerSecond) => {
        this.signals.runsPerSecond.value = runsPerSecond;
        events.onRunRate(running, runsPerSecond);
      }),
    );
    try {
      this.device = this.store.acquireDevice(runtime);
    } catch (error) {
      if (!(error instanceof DeviceUnavailable)) throw error;
      this.deviceError = error;
    }
    if (this.device !== undefined) this.listenToDevice(this.device);
  }

  get loadedContent(): NetworkContent | undefined {
    return this.loaded?.content;
  }

  get bytes(): number {
    return this.loaded?.session.bytes ?? 0;
  }

  get viewCount(): number {
    return this.mountedViews;
  }

  get overriddenInputKey(): string {
    const { loaded } = this;
    const input = loaded?.session.plan.inputs.find((one) => matchesInput(loaded.fed, one));
    return input?.key ?? "";
  }

  get equalExamples(): EqualExamples | undefined {
    const { loaded } = this;
    if (loaded === undefined || this.overriddenInputKey !== "" || loaded.session.plan.batch < 2)
      return undefined;
    const { inputHashes } = loaded.content;
    if (this.equalExamplesCache?.inputs !== inputHashes) {
      const data = inputHashes.map((hash) => this.store.get(hash) ?? new Uint8Array());
      this.equalExamplesCache = {
        inputs: inputHashes,
        twins: findEqualExamples(loaded.session.plan, data),
      };
    }
    return this.equalExamplesCache.twins;
  }

  addView(): () => void {
    this.mountedViews += 1;
    this.timing.scheduleMeasurement();
    let here = true;
    return () => {
      if (here) this.mountedViews -= 1;
      here = false;
    };
  }

  show(
    content: NetworkContent,
    { urgent = false, rerun = false, section }: ShowOptions = {},
  ): Promise<void> {
    this.requestedContent = content;
    this.isUrgent ||= urgent;
    this.requestedSection = section;
    if (rerun || section !== undefined || !this.hasRunAllSections) this.currentContent = undefined;
    const shown = this.lastTask.then(() => this.syncContent());
    this.lastTask = shown.catch(() => undefined);
    return shown;
  }

  async setEdits(edits: readonly Edit[]): Promise<void> {
    const failure = this.requestedEdits.request(edits);
    const brought = this.lastTask.then(() => this.syncContent());
    this.lastTask = brought.catch(() => undefined);
    await brought;
    failure();
  }

  async overrideInput(override: InputOverride | null): Promise<void> {
    this.inputOverride = override;
    const brought = this.lastTask.then(() => this.syncContent());
    this.lastTask = brought.catch(() => undefined);
    await brought;
  }

  commit(): void {
    this.requireSession().commit();
  }

  withSession<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const done = this.lastTask.then(() => work(this.requireSession()));
    this.lastTask = done.then(
      () => undefined,
      () => undefined,
    );
    return done;
  }

  initialWeightData(): WeightDataByTexture {
    const { loaded } = this;
    if (loaded === undefined) throw new SessionClosed("nothing is shown");
    const { plan } = loaded.session;
    const { weightOverrides, weightHashes } = loaded.content;
    const changing = new Set(plan.carries.map(({ target }) => target));
    const found = new Map<number, Float32Array>();
    for (const [k, { texture }] of plan.weights.entries())
      if (changing.size === 0 || changing.has(texture))
        found.set(texture, weightOverrides?.get(texture) ?? this.floatsOf(weightHashes[k] ?? ""));
    return found;
  }

  rerun(): Promise<void> {
    return this.withSession(async (session) => {
      const run = await session.run();
      if (this.loaded?.session !== session) return;
      this.runCount += 1;
      batch(() => {
        this.signals.run.value = run;
        this.signals.remeasuredRun.value = null;
      });
    });
  }

  expediteRun(): void {
    this.runningSession?.run({ urgent: true }).catch(() => undefined);
  }

  async read(key: string): Promise<Float32Array<ArrayBuffer>> {
    return (await this.requireSession().read(key)) as Float32Array<ArrayBuffer>;
  }

  async resamplePicture(input: Input, picture: ImageSource): Promise<Float32Array<ArrayBuffer>> {
    if (this.device === undefined) throw this.deviceError;
    return this.runtime.resamplePicture(this.device, input, picture);
  }

  async forkSession(): Promise<Session> {
    const { loaded, device } = this;
    if (loaded === undefined || device === undefined) throw new SessionClosed("nothing is shown");
    const { content, fed: override } = loaded;
    const { plan, uniforms } = this.parsePlanWithWeights(content);
    // No progress events. If memory is short, the current session stays.
    const weight = (hash: string) => this.floatsOf(hash);
    const session = await this.runtime.createSession(
      device,
      plan,
      uniforms,
      weight,
      () => undefined,
    );
    this.uploadChanges(session, content, contentBeforeUploads(content), override, null);
    return session;
  }

  scheduleRunTiming(): void {
    this.timing.scheduleMeasurement();
  }

  publishPlan(planHash: string): void {
    this.signals.plan.value ??= this.parsePlan(planHash).plan;
  }

  compileAhead(planHash: string): void {
    const { device } = this;
    const known =
      planHash === this.loaded?.content.planHash || planHash === this.compiledAhead?.planHash;
    if (known || device === undefined || device.isLost || this.store.get(planHash) === undefined)
      return;
    this.releaseCompiledAhead();
    try {
      const { plan: header, uniforms } = this.parsePlan(planHash);
      const undo = this.runtime.compileAhead(device, header, uniforms);
      undo.catch(() => undefined);
      this.compiledAhead = { planHash, undo };
      this.signals.plan.value ??= header;
    } catch {
      this.compiledAhead = { planHash, undo: Promise.resolve(() => undefined) }; // not parsed again
    }
  }

  async whenCompiled(): Promise<void> {
    await this.compiledAhead?.undo.catch(() => undefined);
  }

  private releaseCompiledAhead(): void {
    this.compiledAhead?.undo.then((undo) => undo()).catch(() => undefined);
    this.compiledAhead = undefined;
  }

  unloadContent(): void {
    this.requestedContent = undefined;
    this.releaseCompiledAhead();
    this.closeSession();
  }

  dispose(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.timing.dispose();
    for (const undo of this.cleanups) undo();
    this.unloadContent();
    this.requestedEdits.dispose();
    if (this.device !== undefined) this.store.releaseDevice();
  }

  private listenToDevice(device: Device): void {
    this.signals.capabilities.value = device.capabilities;
    this.cleanups.push(
      device.onLost(() => {
        this.contextLosses += 1;
        this.currentContent = undefined;
        this.events.onContextLost();
      }),
      device.onRestored(() => {
        if (this.requestedContent !== undefined)
          this.show(this.requestedContent).catch(() => undefined); // thrown by the next show()
        this.events.onContextRestored();
      }),
    );
  }

  private requireSession(): Session {
    if (this.loaded === undefined) throw new SessionClosed("nothing is shown");
    return this.loaded.session;
  }

  private async syncContent(): Promise<void> {
    const { requestedContent: content, device } = this;
    if (content === undefined || device === undefined || device.isLost || this.isClosed) return;
    const old = this.loaded;
    try {
      // An overridden input keeps its override, even if the content names another input blob.
      const fedAt =
        old?.session.plan.inputs.findIndex((input) => matchesInput(this.inputOverride, input)) ??
        -1;
      const isShown =
        this.currentContent !== undefined &&
        isSameContent(this.currentContent, content, fedAt) &&
        old?.fed === this.inputOverride;
      if (isShown && (old === undefined || !(await this.requestedEdits.applyTo(old.session, true))))
        return;
      this.currentContent = undefined;
      if (old?.content.planHash === content.planHash) await this.updateSession(old, content);
      else await this.replaceSession(content, device);
    } catch (error) {
      // A failed Plan change leaves an unusable session. After a lost context, `onRestored` shows the requested
      // content.
      if (old?.content.planHash !== content.planHash && !device.isLost) this.closeSession();
      throw error;
    } finally {
      this.isUrgent = false;
    }
  }

  /** Update weights or inputs of the same Plan. */
  private async updateSession(
    loaded: NonNullable<typeof this.loaded>,
    content: NetworkContent,
  ): Promise<void> {
    await this.requestedEdits.applyTo(loaded.session, true);
    const { inputOverride } = this;
    this.uploadChanges(loaded.session, content, loaded.content, inputOverride, loaded.fed);
    Object.assign(loaded, { content, fed: inputOverride });
    await this.runSession(loaded.session, content);
  }

  /** Replace the loaded session by a session of another Plan. */
  private async replaceSession(content: NetworkContent, device: Device): Promise<void> {
    const { plan: header, uniforms } = this.parsePlanWithWeights(content);
    const bytes = content.weightHashes.reduce(
      (sum, hash) => sum + (this.store.get(hash)?.length ?? 0),
      0,
    );
    if (this.bytes + bytes > MAX_SESSION_OVERLAP_BYTES) this.closeSession();
    // The session now owns the programs compiled ahead.
    const session = await this.openSession(header, uniforms, device).finally(() =>
      this.releaseCompiledAhead(),
    );
    const old = this.loaded?.session;
    const first = old === undefined;
    const { inputOverride } = this;
    const publishSession = () => {
      this.loaded = { session, content, fed: inputOverride };
      this.signals.plan.value = header;
      this.signals.session.value = session;
    };
    try {
      this.uploadChanges(session, content, contentBeforeUploads(content), inputOverride, null);
      await this.requestedEdits.applyTo(session, false);
      if (first) batch(publishSession);
      await this.runSession(session, content, first ? undefined : publishSession);
    } catch (error) {
      if (this.loaded?.session !== session) session.dispose();
      throw error;
    }
    if (old !== undefined) old.dispose();
  }

  /** Parse the Plan and insert the hashes of the content's weights. */
  private parsePlanWithWeights(content: NetworkContent): {
    readonly plan: PlanHeader;
    readonly uniforms: Uint8Array;
  } {
    const { plan, uniforms } = this.parsePlan(content.planHash);
    // Contributed inputs come last; features write them.
    const inputs = plan.inputs.filter(({ contributed }) => !contributed).length;
    if (
      plan.weights.length !== content.weightHashes.length ||
      inputs !== content.inputHashes.length
    ) {
      throw new PlanError("the Plan and its weights or inputs don't belong together");
    }
    const weights = plan.weights.map((one, k) => ({ ...one, hash: content.weightHashes[k] ?? "" }));
    return { plan: { ...plan, weights }, uniforms };
  }

  private async openSession(
    header: PlanHeader,
    uniforms: Uint8Array,
    device: Device,
  ): Promise<Session> {
    const open = () =>
      this.runtime.createSession(
        device,
        header,
        uniforms,
        (hash) => this.floatsOf(hash),
        this.events.onProgress,
      );
    let session: Session;
    try {
      session = await open();
    } catch (error) {
      // Without the old session, memory may suffice.
      const isFull = error instanceof Error && error.name === "PlanError" && this.bytes > 0;
      if (!isFull || device.isLost) throw error;
      this.closeSession();
      session = await open();
    }
    if (this.requestedContent !== undefined) return session;
    session.dispose(); // the content is no longer requested
    throw new SessionClosed("the engine was released");
  }

  /** Upload the weights and inputs that differ from the session's. */
  private uploadChanges(
    session: Session,
    content: NetworkContent,
    previousContent: NetworkContent,
    override: InputOverride | null,
    previousOverride: InputOverride | null,
  ): void {
    const patches = content.patches ?? [];
    const old = previousContent.patches ?? [];
    const kept = old.every((patch, k) => patches[k] === patch);
    const stale = new Set(kept ? [] : old.map(({ texture }) => texture));
    const written = new Set<number>();
    for (const [index, hash] of content.weightHashes.entries()) {
      const texture = session.plan.weights[index]?.texture;
      if (texture === undefined) continue;
      const textureOverride = content.weightOverrides?.get(texture);
      const isSame =
        previousContent.weightHashes[index] === hash &&
        previousContent.weightOverrides?.get(texture) === textureOverride;
      if (isSame && !stale.has(texture)) continue;
      session.setWeight(
        texture,
        textureOverride ?? this.floatsOf(hash),
        textureOverride ? undefined : hash,
      );
      written.add(texture);
    }
    for (const [k, patch] of patches.entries()) {
      if (!kept || k >= old.length || written.has(patch.texture)) session.patchWeight(patch);
    }
    if (previousContent.inputHashes.length === 0) {
      for (const { key, shape, contributed } of requiredInputs(session.plan)) {
        if (contributed) session.write(key, new Float32Array(shape.reduce((a, b) => a * b, 1)));
      }
    }
    for (const [index, hash] of content.inputHashes.entries()) {
      const input = session.plan.inputs[index];
      if (input === undefined) continue;
      if (matchesInput(override, input)) {
        // Upload the content's input too: the override's first picture may arrive later, as from a camera.
        if (previousContent.inputHashes[index] === undefined)
          session.write(input.key, this.floatsOf(hash));
        if (override !== previousOverride) feedInput(session, override);
      } else if (
        previousContent.inputHashes[index] !== hash ||
        matchesInput(previousOverride, input)
      ) {
        session.write(input.key, this.floatsOf(hash));
      }
    }
  }

  private async runSession(
    session: Session,
    content: NetworkContent,
    publishSession?: () => void,
  ): Promise<void> {
    const { onProgress } = this.events;
    onProgress({ stage: "run", done: 0, total: 1 });
    this.runningSession = session;
    this.signals.isRunning.value = true;
    const { requestedSection, isUrgent } = this;
    const options = {
      urgent: isUrgent,
      onProgress,
      ...(requestedSection === undefined ? {} : { section: requestedSection }),
    };
    const run = await session.run(options).finally(() => {
      this.signals.isRunning.value = false;
      this.runningSession = undefined;
    });
    if (this.requestedContent === undefined) throw new SessionClosed("the engine was released");
    this.runCount += 1;
    this.currentContent = content;
    this.hasRunAllSections = requestedSection === undefined;
    batch(() => {
      publishSession?.();
      this.signals.run.value = run;
      this.signals.remeasuredRun.value = null;
    });
  }

  private parsePlan(planHash: string): {
    readonly plan: PlanHeader;
    readonly uniforms: Uint8Array;
  } {
    const file = this.store.get(planHash);
    if (file === undefined) throw new PlanError("the Plan has not loaded");
    return parseHeaderAndUniforms(file);
  }

  private floatsOf(hash: string): Float32Array {
    const data = this.store.get(hash);
    if (data === undefined) throw new PlanError(`the weights or input ${hash} have not loaded`);
    return new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
  }

  private closeSession(): void {
    this.currentContent = undefined;
    this.signals.session.value = null;
    this.loaded?.session.dispose();
    this.loaded = undefined;
  }
}

/** The content of a new session before any upload. */
const contentBeforeUploads = (content: NetworkContent): NetworkContent => ({
  ...content,
  inputHashes: [],
  patches: [],
  weightOverrides: undefined,
});

function matchesInput(
  override: InputOverride | null,
  { key, shape, fit }: PlanHeader["inputs"][number],
): override is InputOverride {
  if (override?.key !== key) return false;
  if (override.data === undefined) return fit !== "";
  return override.data.length === shape.reduce((product, size) => product * size, 1);
}

function feedInput(
  session: Session,
  { key, data, picture, mirrored = false }: InputOverride,
): void {
  if (data !== undefined) session.write(key, data);
  else if (picture !== undefined) session.feed(key, picture, mirrored);
}

const isSameContent = (a: NetworkContent, b: NetworkContent, ignoredInputIndex: number): boolean =>
  a.planHash === b.planHash &&
  a.weightHashes.join() === b.weightHashes.join() &&
  a.inputHashes.every((hash, k) => k === ignoredInputIndex || hash === b.inputHashes[k]) &&
  a.weightOverrides === b.weightOverrides &&
  a.patches?.length === b.patches?.length &&
  (a.patches ?? []).every((patch, k) => b.patches?.[k] === patch);
