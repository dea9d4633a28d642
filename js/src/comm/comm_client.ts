// Client between Python and a page's engine: sends hello, collects the blobs that the engine needs, replies to reads,
// reports progress.
import type { AnyModel } from "@anywidget/types";
import { effect } from "@preact/signals";
import { createEngine } from "../engine/engine.ts";
import { pageStore } from "../engine/page_store.ts";
import { ParityScheduler } from "../engine/parity_check_schedule.ts";
import type { Engine, InputOverride, NetworkContent } from "../engine/types.ts";
import { type ExampleMismatch, findMismatches, readSamples } from "../engine/value_samples.ts";
import type { Feature, FeatureInstance, MessageHandlers, ViewerHost } from "../features/feature.ts";
import type { MessageBuffer } from "../message_buffers.ts";
import {
  CHUNK_BYTES,
  type FromKernel,
  MAX_EXAMPLE_MISMATCHES,
  MAX_PROBE_BYTES,
  type Manifest,
  type PageFailure,
  type Patches,
  type Probe,
  type Read,
  type VerifyResult,
} from "../messages.ts";
import { beforeEditsKey } from "../plan/derived_values.ts";
import type { Edit } from "../plan/edits.ts";
import type { Progress as EngineProgress, Patch, Runtime } from "../plan/runtime.ts";
import { concatFloats } from "../plan/uniforms.ts";
import { serializeActiveEdits } from "../state/edits.ts";
import { createState, type ParityResult, type ViewerState } from "../state.ts";
import { statuses } from "../status.ts";
import { BlobDownloads } from "./blob_downloads.ts";
import { BlobRequests } from "./blob_requests.ts";
import {
  decodeMessage,
  decodePatches,
  decodeStringList,
  waitForMacrotask,
  warnOnce,
} from "./message_codec.ts";
import { watchKernel } from "./notebook_host.ts";
import { saveSnapshots } from "./notebook_snapshots.ts";
import { PageReports } from "./page_reports.ts";
import { ReadReplies } from "./read_replies.ts";

/** A failure that is not yet assigned to a read. */
type Failure = Omit<PageFailure, "id">;

type MessageHandler = (message: FromKernel, buffers: readonly MessageBuffer[]) => void;

const NOT_CONNECTED_TEXT = "Python is not connected. Run the cell again.";

export class CommClient {
  readonly state: ViewerState;
  private readonly pageId = randomPageId();
  private readonly model: AnyModel;
  private readonly reports: PageReports;
  private readonly engine: Engine;
  private readonly store = pageStore();
  private readonly blobDownloads: BlobDownloads;
  private readonly readReplies: ReadReplies;
  private readonly blobRequests: BlobRequests;
  private readonly features: readonly FeatureInstance[];
  /** For each read, whether a feature still delays the reply. */
  private readonly readBlockers = new WeakMap<Read, () => boolean>();
  /** The fed input ends as soon as a later revision than this one is shown. */
  private overrideEndsAfterRevision: number | undefined;
  private readonly cleanups: (() => void)[] = [];
  private isReleaseRequested = false;
  /** Python cannot work with this page. */
  private isRejected = false;
  private isClosed = false;

  private latestManifest: Manifest | undefined;
  /** Weight changes since the latest Manifest. */
  private patches: readonly Patch[] = [];
  /** The revision whose values the engine holds. */
  private shownRevision = -1;
  /** The blob of class names that the views show. */
  private classNamesBlob = "";
  /** The probe to answer next; when another check of the same Plan is due, it is set again from `currentProbe`. */
  private dueProbe: Probe | undefined;
  private currentProbe: { readonly plan: string; readonly probe: Probe } | undefined;
  private readonly parityScheduler: ParityScheduler;
  /** Values in which examples with equal inputs differ, as last sent to Python. */
  private knownMismatches = new Set<string>();
  /** The last edits passed to the engine, applied or refused. */
  private submittedEdits: readonly Edit[] = [];
  /** The active edits as the parity check identifies them. */
  private serializedEdits: string | null = "";
  /** The parity result of this Plan's last sampled check; it stays valid when other inputs arrive. */
  private sampledParity: ParityResult | null = null;
  private isWorking = false;
  private hasNewWork = false;
  private compilingSince = 0;

  constructor(model: AnyModel, runtime: Runtime, features: readonly Feature[]) {
    this.model = model;
    const { pageId } = this;
    this.engine = createEngine(runtime, {
      onProgress: (progress) => this.reportProgress(progress),
      onContextLost: () => {
        this.state.status.value = statuses.lost(this.state.plan.value?.layers.length ?? 0);
        this.reports.reportContextHealth();
      },
      onContextRestored: () => {
        this.shownRevision = -1;
        void this.runWork();
      },
      onRunTimed: (run) => this.reports.reportRun(run, this.shownRevision, true),
      onRunRate: (running, runsPerSecond) =>
        this.reports.send({
          type: "runrate",
          page: pageId,
          running,
          runs_per_second: runsPerSecond,
        }),
      isBusy: () => this.isWorking,
    });
    this.state = createState(features, this.engine.signals);
    this.reports = new PageReports(model, pageId, this.engine, this.state, {
      cachedBlobHashes: () => this.blobDownloads.hashesKnownToPython,
      onDisconnected: () => this.disconnect(),
    });
    this.blobDownloads = new BlobDownloads(this.store, {
      requestChunks: (blob, chunks) =>
        this.reports.send({ type: "requestblob", page: pageId, blob, chunks }),
      onProgress: () => void this.runWork(),
      onTimeout: (text) => {
        this.reports.clearProgress();
        this.reportFailure(this.createFailure("data", text));
      },
    });
    this.readReplies = new ReadReplies({
      send: (reply, data) => this.reports.send({ type: "reply", page: pageId, ...reply }, [data]),
      onProgress: (done, total) => this.reports.setProgress("reading", done, total),
      captureView: () => {
        const [screen] = this.state.viewCaptureCallbacks;
        return screen?.() ?? Promise.reject(new Error("this page shows no view of it"));
      },
    });
    this.parityScheduler = new ParityScheduler(this.engine, {
      isReadyToCheck: () => this.canCheckParity,
      requestCheck: () => {
        this.dueProbe = this.currentProbe?.probe;
        void this.runWork();
      },
      hasNewMismatch: () => this.hasNewMismatch(),
    });
    this.blobRequests = new BlobRequests((blob, chunks) =>
      this.reports.send({ type: "requestblob", page: pageId, blob, chunks }),
    );
    this.features = features.flatMap((feature) => feature.start?.(this.host()) ?? []);
    this.listen("msg:custom", (content: unknown, buffers: readonly MessageBuffer[]) =>
      this.receive(content, buffers),
    );
    this.listen("comm_live_update", () => this.disconnect());
    this.cleanups.push(
      ...this.features.map((feature) => () => feature.close?.()),
      () => this.parityScheduler.dispose(),
      saveSnapshots(model),
      watchKernel(model, () => this.disconnect()),
      effect(() => {
        this.state.engineEdits.value;
        this.state.areEditsBypassed.value;
        this.state.earlierWeights.value;
        void this.runWork();
      }),
      this.state.engineEdits.subscribe(() => {
        const before = this.serializedEdits;
        this.serializedEdits = serializeActiveEdits(this.state);
        // The result is for the previous edits. A disabled edit doesn't count, and Python may send the same edits
        // again.
        if (this.serializedEdits !== before) this.sampledParity = this.state.parity.value = null;
      }),
    );
    this.state.setPrecision.value = (precision) =>
      this.reports.send({ type: "setprecision", page: pageId, precision });
    this.showDeviceUnavailable();
    this.reports.sendHello();
    this.reports.startPointerReports();
  }

  /** Mount a view. Returns the callback that unmounts it. */
  addView(): () => void {
    const leave = this.engine.addView();
    this.isReleaseRequested = false;
    this.reports.reportContextHealth();
    void this.runWork();
    let here = true;
    return () => {
      if (!here) return;
      here = false;
      leave();
      if (!this.isClosed) this.reports.reportContextHealth();
      void this.runWork();
    };
  }

  dispose(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.reports.dispose();
    for (const undo of this.cleanups) undo();
    this.blobRequests.cancel(undefined, NOT_CONNECTED_TEXT);
    this.readReplies.clear();
    this.blobDownloads.stop();
    this.engine.dispose();
    this.blobDownloads.releaseAll();
    if (this.state.snapshotUrl.value !== null) URL.revokeObjectURL(this.state.snapshotUrl.value);
    this.state.snapshotUrl.value = null;
    this.state.isConnected.value = false;
    this.state.setPrecision.value = null;
    this.state.status.value = statuses.closed();
  }

  /** Python has disconnected: stop timers, downloads and replies. The engine keeps running. */
  private disconnect(): void {
    if (!this.state.isConnected.peek()) return;
    this.state.isConnected.value = false;
    this.parityScheduler.dispose();
    this.state.setPrecision.value = null;
    this.reports.stopTimers();
    this.blobRequests.cancel(undefined, NOT_CONNECTED_TEXT);
    this.blobDownloads.stop();
    this.readReplies.clear();
    this.showDisconnected();
    void this.runWork();
  }

  private showDisconnected(): void {
    const shown = this.state.session.peek() !== null || this.state.snapshotUrl.peek() !== null;
    if (!this.isClosed) this.state.status.value = statuses.restarted(shown);
  }

  private listen(event: string, callback: (...values: never[]) => void): void {
    this.model.on(event, callback as () => void);
    this.cleanups.push(() => this.model.off(event, callback as () => void));
  }

  /** Report the engine's progress to Python and to the views. */
  private reportProgress({ stage, done, total }: EngineProgress): void {
    if (this.isClosed) return;
    this.reports.setProgress(stage === "run" ? "running" : "compiling", done, total);
    if (stage === "compile") {
      this.compilingSince ||= performance.now();
      const seconds = (performance.now() - this.compilingSince) / 1000;
      this.state.status.value = statuses.compiling(done, total, seconds);
    } else if (stage === "run" && this.compilingSince > 0) {
      this.compilingSince = 0;
      this.state.status.value = statuses.running();
    }
  }

  // Incoming messages

  private receive(content: unknown, buffers: readonly MessageBuffer[]): void {
    const message = decodeMessage(content);
    if (message === undefined || this.isClosed) return;
    for (const takes of [this.messageHandlers, ...this.features.map(({ messages }) => messages)])
      (takes?.[message.type] as MessageHandler | undefined)?.(message, buffers);
  }

  private readonly messageHandlers: MessageHandlers = {
    manifest: (message) => this.receiveManifest(message),
    patches: (message, buffers) => this.receivePatches(message, buffers),
    blobchunk: (message, buffers) => {
      this.blobDownloads.receive(message, buffers);
      this.blobRequests.receive(message, buffers);
    },
    read: (message) => this.receiveRead(message),
    readdone: ({ read }) => this.readReplies.finish(read),
    verifyresult: (message) => this.receiveVerdict(message),
    probe: (message) => {
      if (message.page !== this.pageId || this.latestManifest === undefined) return;
      const { plan } = this.latestManifest;
      if (this.currentProbe?.plan !== plan) {
        this.knownMismatches.clear();
        this.parityScheduler.restart();
      }
      this.currentProbe = { plan, probe: message };
      this.dueProbe = message;
      void this.runWork();
    },
    releasememory: () => {
      this.isReleaseRequested = true;
      void this.runWork();
    },
    rejectpage: ({ page, title, text }) => {
      if (page !== this.pageId) return;
      this.reports.stopHello();
      this.isRejected = true;
      this.state.status.value = statuses.failed(title, text);
    },
  };

  private receiveManifest(manifest: Manifest): void {
    this.reports.stopHello();
    if (this.isRejected) return; // the message is for another page
    if (this.latestManifest !== undefined && manifest.revision < this.latestManifest.revision)
      return;
    if (manifest.plan !== this.latestManifest?.plan)
      this.sampledParity = this.state.earlierWeights.value = null;
    if (manifest.revision !== this.latestManifest?.revision) {
      this.state.parity.value = this.sampledParity;
      this.patches = []; // the new weights already contain them
      this.state.weightOverrides.value = undefined;
    }
    this.latestManifest = manifest;
    this.blobDownloads.setRequested({
      hashes: this.requiredBlobs(manifest),
      sizes: manifest.sizes,
    });
    void this.runWork();
  }

  /**
   * Apply a message on top of the latest state. If its base is another revision, a message was lost: send hello to
   * request it.
   */
  private applyRevision(
    { base, revision }: Pick<Patches, "base" | "revision">,
    apply: () => boolean,
  ): void {
    const { latestManifest } = this;
    if (latestManifest === undefined || revision <= latestManifest.revision) return;
    if (base !== latestManifest.revision) this.reports.sendHello();
    else if (apply()) {
      this.latestManifest = { ...latestManifest, revision };
      void this.runWork();
    }
  }

  private receivePatches(message: Patches, [buffer]: readonly MessageBuffer[]): void {
    this.applyRevision(message, () => {
      const patches = decodePatches(message.rectangles, buffer);
      if (patches === undefined) {
        this.reports.sendHello(); // handled like a lost message
        return false;
      }
      this.patches = [...this.patches, ...patches];
      this.state.parity.value = this.sampledParity;
      return true;
    });
  }

  // Features

  private host(): ViewerHost {
    const { pageId, model, state, engine, blobRequests } = this;
    return {
      pageId,
      state,
      engine,
      python: {
        send: (message, buffers) => this.reports.send(message, buffers),
        traitValue: (name) => model.get(name),
        applyRevision: (message, take) => this.applyRevision(message, take),
        notifyReads: () => void this.runWork(),
      },
      blob: (name) =>
        state.isConnected.peek()
          ? blobRequests.fetch(name)
          : Promise.reject(new Error(NOT_CONNECTED_TEXT)),
      release: (name) => blobRequests.cancel(name),
      feed: (fed, taken) => this.overrideInput(fed, taken),
      read: (key) => engine.read(key),
    };
  }

  private async overrideInput(
    newOverride: InputOverride | null,
    isTakenOver = false,
  ): Promise<void> {
    this.overrideEndsAfterRevision = undefined;
    if (newOverride !== null) return this.engine.overrideInput(newOverride);
    this.overrideEndsAfterRevision = isTakenOver
      ? (this.latestManifest?.revision ?? -1)
      : Number.NEGATIVE_INFINITY;
    void this.runWork();
  }

  /** End the input override once a later revision is shown. */
  private async endOverride(): Promise<void> {
    if (
      this.overrideEndsAfterRevision === undefined ||
      this.shownRevision <= this.overrideEndsAfterRevision
    )
      return;
    this.overrideEndsAfterRevision = undefined;
    await this.engine.overrideInput(null);
  }

  private requiredBlobs({
    plan,
    weights,
    inputs,
    injected,
    snapshot,
    classes,
  }: Manifest): Set<string> {
    if (this.engine.device !== undefined) {
      const names = classes === "" ? [] : [classes];
      return new Set([plan, ...weights, ...inputs, ...injected, ...names]);
    }
    return new Set(snapshot === "" ? [plan] : [plan, snapshot]);
  }

  private receiveRead(read: Read): void {
    if (!["", this.pageId].includes(read.page) || !this.readReplies.receive(read)) return;
    const held = this.features.flatMap((feature) => feature.onRead?.() ?? []);
    this.readBlockers.set(read, () => held.some((one) => one()));
    // Python sends the Manifest before the read, so the Manifest was lost.
    if (read.revision > (this.latestManifest?.revision ?? -1)) this.reports.sendHello();
    this.engine.expediteRun();
    void this.runWork();
  }

  private receiveVerdict(verdict: VerifyResult): void {
    const { page, revision, reference, layers, non_finite, edits, note, float16_overflow } =
      verdict;
    const isSampled = page !== "";
    if (isSampled ? page !== this.pageId : revision !== this.latestManifest?.revision) return;
    // The verdict is for edits other than the current ones.
    if (isSampled && edits !== serializeActiveEdits(this.state)) return;
    const isWithEdits = edits !== "";
    const parity = {
      reference,
      layers,
      non_finite,
      note,
      float16_overflow,
      isSampled,
      hasReplayedEdits: isWithEdits,
      checkedAtMs: Date.now(),
    };
    if (isSampled) this.sampledParity = parity;
    if (!isSampled || this.state.parity.peek()?.isSampled !== false)
      this.state.parity.value = parity;
  }

  // Work loop

  /** Run work steps one at a time; run another step if something arrived meanwhile. */
  private async runWork(): Promise<void> {
    this.hasNewWork = true;
    if (this.isWorking) return;
    this.isWorking = true;
    while (this.hasNewWork && !this.isClosed) {
      this.hasNewWork = false;
      try {
        await this.runWorkStep();
      } catch (error) {
        this.handleError(error);
      }
    }
    this.isWorking = false;
  }

  private async runWorkStep(): Promise<void> {
    const state = this.latestManifest;
    if (state === undefined) return;
    if (this.isEngineUnused && this.readReplies.unansweredReads.length === 0) {
      this.releaseEngine();
      return;
    }
    const { engine } = this;
    if (!this.hasAllBlobs()) {
      engine.compileAhead(state.plan);
      return;
    }
    if (engine.device === undefined) {
      this.showSnapshot(state);
      return;
    }
    if (engine.device.isLost) return; // see onContextRestored
    if (state.classes !== this.classNamesBlob) {
      this.classNamesBlob = state.classes;
      this.state.classNames.value = decodeStringList(this.store.get(state.classes));
    }
    // Edits first: the next run includes them.
    await this.applyEdits();
    await this.showManifest(state);
    await this.applyEdits(); // if nothing was shown before, invalid edits show only now
    if (this.shownRevision < 0 || this.isClosed) return;
    await this.endOverride();
    for (const read of this.readReplies.unansweredReads) {
      if (!this.hasSubmitted(this.state.engineEdits.peek())) {
        this.hasNewWork = true; // they arrived before this read, while others were being applied
        return;
      }
      if (this.readBlockers.get(read)?.()) {
        this.reports.setProgress("receiving", 0, 1);
        return; // the input that the read refers to has not arrived yet
      }
      // All values come from one run, even while a source is live or the network trains.
      await engine
        .withSession(() => this.readReplies.readAndReply(engine, read, this.shownRevision))
        .catch((error) => this.failRead(read, error));
    }
    this.reports.clearProgress();
    if (this.state.isConnected.value) this.state.status.value = statuses.ready();
    else this.showDisconnected();
    if (this.isEngineUnused) this.releaseEngine();
    else await this.answerProbe(state);
    engine.scheduleRunTiming();
  }

  /** Whether all required blobs are in the page; otherwise report progress and schedule retries. */
  private hasAllBlobs(): boolean {
    const { isConnected } = this.state;
    if (!isConnected.peek()) this.blobDownloads.retainRequested(); // an unmounted view released them
    this.blobDownloads.stopRetries();
    const { progress } = this.blobDownloads;
    if (progress === undefined) return true;
    this.reports.setProgress("receiving", progress.done, progress.total);
    // Checked again: Python may have disconnected during the report.
    if (isConnected.peek()) {
      this.state.status.value = statuses.receiving(progress.done, progress.total);
      this.blobDownloads.startRetries();
    } else this.showDisconnected(); // no more blobs will arrive
    return false;
  }

  /** Let the engine show and run this Manifest. */
  private async showManifest(manifest: Manifest): Promise<void> {
    const { engine } = this;
    const { plan: planHash, weights: weightHashes, inputs: inputHashes, revision } = manifest;
    const isAsked = this.readReplies.unansweredReads.length > 0;
    const { weightOverrides: now, earlierWeights } = this.state;
    // A read gets values for the current weights, even while a view shows earlier ones.
    const weightOverrides = (isAsked ? null : earlierWeights.peek()) ?? now.peek();
    this.hasNewWork ||= isAsked && earlierWeights.peek() !== null;
    const content: NetworkContent = {
      planHash,
      weightHashes,
      inputHashes,
      patches: this.patches,
      weightOverrides,
    };
    if (
      this.shownRevision === revision &&
      weightOverrides === engine.currentContent?.weightOverrides
    )
      return;
    const urgent = this.readReplies.unansweredReads.length > 0;
    // While an input is overridden, the new revision is Python adopting that input: no rerun is needed.
    const rerun = this.shownRevision >= 0 && this.state.inputOverride.peek() === null;
    await engine.show(content, { urgent, rerun });
    if (this.isClosed || engine.currentContent === undefined) return; // context lost meanwhile
    this.shownRevision = revision;
    const run = this.state.run.peek();
    if (run !== null) this.reports.reportRun(run, revision, false);
    this.reports.reportContextHealth();
  }

  /** Whether the engine already has these edits. */
  private hasSubmitted(edits: readonly Edit[]): boolean {
    return edits === this.submittedEdits || edits.length + this.submittedEdits.length === 0;
  }

  /** Pass the current edits to the engine; if it rejects them, it keeps the previous ones. */
  private async applyEdits(): Promise<void> {
    const { engineEdits, featureEdits, areEditsBypassed, editError } = this.state;
    // Reads return values with the edits applied, even while a view shows the network without them.
    const without = areEditsBypassed.peek() && this.readReplies.unansweredReads.length === 0;
    const edits = (without ? featureEdits : engineEdits).peek();
    this.hasNewWork ||= areEditsBypassed.peek() !== without;
    if (this.hasSubmitted(edits)) return;
    if (this.engine.currentContent !== undefined) this.submittedEdits = edits;
    try {
      await this.engine.setEdits(edits);
      editError.value = "";
    } catch (error) {
      const failure = this.toFailure(error);
      if (failure === undefined) throw error;
      editError.value = failure.text;
      this.reports.send({ ...failure, id: "", kind: "edit" });
    }
  }

  /** Free the engine. A view that is mounted later finds the blobs that are still in the page's store. */
  private releaseEngine(): void {
    this.engine.unloadContent();
    this.shownRevision = -1;
    this.reports.clearProgress();
    this.reports.reportContextHealth();
    if (!this.state.isConnected.peek()) this.blobDownloads.releaseAll();
  }

  /** Send samples for the parity check when the engine is idle; newer work goes first. */
  private async answerProbe(manifest: Manifest): Promise<void> {
    const { engine, dueProbe } = this;
    if (dueProbe === undefined) return;
    const bands = dueProbe.keys.map((key, k) => ({ key, spans: dueProbe.spans[k] ?? [] }));
    const isFree = (): boolean =>
      this.readReplies.unansweredReads.length === 0 &&
      this.latestManifest === manifest &&
      !this.isClosed &&
      this.dueProbe === dueProbe;
    try {
      await engine.withSession(async (session) => {
        const edits = serializeActiveEdits(this.state);
        // Wait until the edits and the current weights are active again.
        if (edits === null || this.state.earlierWeights.peek() !== null) return;
        if (!this.hasSubmitted(this.state.engineEdits.peek())) return;
        await waitForMacrotask();
        const { equalExamples, overriddenInputKey: fed } = engine;
        const samples = await readSamples(session, bands, isFree);
        if (samples === undefined) return;
        const found =
          equalExamples && edits === "" ? await findMismatches(session, equalExamples, isFree) : [];
        if (found === undefined) return;
        if (fed !== "") samples.push((await session.read(beforeEditsKey(fed))).slice());
        if (!isFree()) return;
        this.dueProbe = undefined;
        this.sendSamples(concatFloats(samples).buffer, edits, fed, found);
        this.parityScheduler.markCheckDone();
      });
    } catch (error) {
      if (this.dueProbe === dueProbe) this.dueProbe = undefined;
      if (!this.isClosed && !engine.device?.isLost) warnOnce(`no parity check: ${error}`);
    }
  }

  private sendSamples(
    data: ArrayBuffer,
    edits: string,
    sourceInput: string,
    mismatches: readonly ExampleMismatch[],
  ): void {
    const { pageId, shownRevision: revision } = this;
    const { byteLength: bytes } = data;
    if (bytes > MAX_PROBE_BYTES) return;
    for (const [key] of mismatches) this.knownMismatches.add(key);
    const count = Math.max(1, Math.ceil(bytes / CHUNK_BYTES));
    const found = {
      source_input: sourceInput,
      example_mismatches: mismatches.slice(0, MAX_EXAMPLE_MISMATCHES),
    };
    const whole = {
      type: "probereply",
      page: pageId,
      revision,
      count,
      bytes,
      edits,
      ...found,
    } as const;
    for (let chunk = 0; chunk < count; chunk++)
      this.reports.send({ ...whole, chunk }, [
        data.slice(chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES),
      ]);
  }

  /** Whether the current numbers can be compared with Python's and no run is in flight. */
  private get canCheckParity(): boolean {
    const { currentProbe, latestManifest, engine } = this;
    const { isConnected, weightActivity, earlierWeights } = this.state;
    const isChanging = weightActivity.peek() === "changing";
    const isHere =
      latestManifest !== undefined &&
      currentProbe?.plan === latestManifest.plan &&
      isConnected.peek();
    const isShown = engine.currentContent !== undefined && engine.device?.isLost !== true;
    return (
      isHere &&
      isShown &&
      !isChanging &&
      earlierWeights.peek() === null &&
      serializeActiveEdits(this.state) !== null
    );
  }

  private async hasNewMismatch(): Promise<boolean> {
    const { engine, state } = this;
    if (
      engine.equalExamples === undefined ||
      serializeActiveEdits(state) !== "" ||
      !this.hasSubmitted([])
    )
      return false;
    const isFree = () => this.readReplies.unansweredReads.length === 0 && !this.isClosed;
    const found = await engine.withSession(async (session) => {
      const { equalExamples } = engine;
      return equalExamples && findMismatches(session, equalExamples, isFree);
    });
    return found?.some(([key]) => !this.knownMismatches.has(key)) ?? false;
  }

  /**
   * Whether the engine can be freed: no view is mounted, and Python has disconnected or closed the model. Weight
   * changes in the page keep it alive.
   */
  private get isEngineUnused(): boolean {
    const left =
      (this.isReleaseRequested && this.state.weightActivity.peek() === "") ||
      !this.state.isConnected.peek();
    return this.engine.viewCount === 0 && left;
  }

  // Browsers without WebGL2, and failures

  private showDeviceUnavailable(): void {
    const { deviceError } = this.engine;
    if (deviceError === undefined) return;
    const found = `${deviceError.message} (${deviceError.detail})`;
    this.state.status.value = statuses.unsupported(deviceError.reason, found);
  }

  /** For a browser that cannot run the network: show the network's layers and Python's snapshot image. */
  private showSnapshot(manifest: Manifest): void {
    this.reports.clearProgress();
    this.engine.publishPlan(manifest.plan);
    this.showDeviceUnavailable();
    const png = this.store.get(manifest.snapshot);
    if (png !== undefined) {
      if (this.state.snapshotUrl.value !== null) URL.revokeObjectURL(this.state.snapshotUrl.value);
      this.state.snapshotUrl.value = URL.createObjectURL(new Blob([png], { type: "image/png" }));
    }
    if (!this.state.isConnected.peek()) this.showDisconnected();
  }

  /** Fail a single read: the network has run, and other reads continue. */
  private failRead(read: Read, error: unknown): void {
    const failure = this.toFailure(error);
    if (failure === undefined) throw error;
    this.readReplies.finish(read.id);
    this.reports.send({ ...failure, id: read.id });
  }

  private handleError(error: unknown): void {
    this.reports.clearProgress();
    this.compilingSince = 0;
    const failure = this.toFailure(error);
    if (failure !== undefined) this.reportFailure(failure);
  }

  /** The failure to report for an error; undefined if the session was closed or a lost context will be restored. */
  private toFailure(error: unknown): Failure | undefined {
    if (this.isClosed) return undefined;
    // Compare by name: another bundle's copy of these classes may have opened the device.
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    if (name === "SessionClosed") return undefined;
    if (name === "ContextLostError" || this.engine.device?.isLost) return undefined; // see onContextRestored
    const device = name === "ShaderError" || name === "PlanError";
    return this.createFailure(device ? "device" : "internal", message);
  }

  private createFailure(kind: PageFailure["kind"], text: string): Failure {
    return { type: "pagefailure", page: this.pageId, kind, text: text.slice(0, 10_000) };
  }

  private reportFailure(failure: Failure): void {
    this.state.status.value = statuses.failed("This page can’t run the network", failure.text);
    this.reports.send({ ...failure, id: "" });
    for (const { id } of this.readReplies.unansweredReads) {
      this.readReplies.finish(id);
      this.reports.send({ ...failure, id });
    }
  }
}

/** A random page name. Not crypto.randomUUID: pages served over plain http don't have it. */
function randomPageId(): string {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return [...numbers].map((n) => n.toString(16).padStart(8, "0")).join("");
}
