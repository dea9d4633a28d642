// Python's client of a page's engine: says hello, gathers what the engine is to show, answers reads, tells how it goes.
import type { AnyModel } from "@anywidget/types";
import { effect } from "@preact/signals";
import type { Buffer } from "../buffers.ts";
import { Checks } from "../engine/checks.ts";
import { createEngine } from "../engine/engine.ts";
import { type Apart, apartIn, sampled } from "../engine/samples.ts";
import { pageStore } from "../engine/store.ts";
import type { Content, Engine, Fed } from "../engine/types.ts";
import type { Feature, Host, Messages, Running } from "../features/feature.ts";
import {
  CHUNK,
  type Failed,
  type FromKernel,
  MAX_PROBED,
  MOST_APART,
  type Patches,
  type Probe,
  type Read,
  type State,
  type Verified,
} from "../messages.ts";
import { beforeKey } from "../plan/derived_values.ts";
import type { Edit } from "../plan/edits.ts";
import type { Progress as EngineProgress, Patch, Runtime } from "../plan/runtime.ts";
import { joined } from "../plan/uniforms.ts";
import { said } from "../state/edits.ts";
import { createState, type Parity, type ViewerState } from "../state.ts";
import { says } from "../status.ts";
import { Answers } from "./answers.ts";
import { Arrivals } from "./arrivals.ts";
import { Blobs } from "./blobs.ts";
import { watchKernel } from "./host.ts";
import { Reports } from "./reports.ts";
import { keepSnapshots } from "./snapshots.ts";
import { decode, macrotask, patchesOf, textsOf, warnOnce } from "./wire.ts";

/** A failure before it is said of which read. */
type Failure = Omit<Failed, "id">;

type Taker = (message: FromKernel, buffers: readonly Buffer[]) => void;

const GONE = "Python is gone: run the cell again.";

export class CommClient {
  readonly state: ViewerState;
  private readonly page = randomName();
  private readonly model: AnyModel;
  private readonly reports: Reports;
  private readonly engine: Engine;
  private readonly store = pageStore();
  private readonly arrivals: Arrivals;
  private readonly answers: Answers;
  private readonly blobs: Blobs;
  private readonly features: readonly Running[];
  /** Whether a feature still holds up a read. */
  private readonly held = new WeakMap<Read, () => boolean>();
  /** What was fed goes as soon as something behind this revision is shown. */
  private leaving: number | undefined;
  private readonly undo: (() => void)[] = [];
  private released = false;
  /** Python cannot work with this page. */
  private refused = false;
  private closed = false;

  private wanted: State | undefined;
  /** What has changed in its weights since. */
  private patches: readonly Patch[] = [];
  /** The revision whose values the engine has. */
  private ran = -1;
  /** The blob with the names of classes that the views have. */
  private named = "";
  /** What is still to be answered; the last one of this Plan is answered again when a check is due. */
  private probe: Probe | undefined;
  private standing: { readonly plan: string; readonly probe: Probe } | undefined;
  private readonly checks: Checks;
  /** Values in which examples with the same input differ, as sent to Python. */
  private apart = new Set<string>();
  /** The edits that the engine has, or has refused. */
  private edits: readonly Edit[] = [];
  /** What changes something, as the parity check is told it. */
  private bentAs: string | null = "";
  /** What the parity check has found of this Plan: it holds when other inputs come. */
  private tested: Parity | null = null;
  private working = false;
  private again = false;
  private compilingSince = 0;

  constructor(model: AnyModel, runtime: Runtime, features: readonly Feature[]) {
    this.model = model;
    const { page } = this;
    this.engine = createEngine(runtime, {
      onProgress: (progress) => this.follow(progress),
      onLost: () => {
        this.state.status.value = says.lost(this.state.plan.value?.layers.length ?? 0);
        this.reports.tellHealth();
      },
      onRestored: () => {
        this.ran = -1;
        void this.work();
      },
      onTimed: (run) => this.reports.tellRun(run, this.ran, true),
      onPace: (running, runsPerSecond) =>
        this.reports.send({ type: "pace", page, running, runs_per_second: runsPerSecond }),
      isBusy: () => this.working,
    });
    this.state = createState(features, this.engine.signals);
    this.reports = new Reports(model, page, this.engine, this.state, {
      have: () => this.arrivals.have,
      onGone: () => this.disconnect(),
    });
    this.arrivals = new Arrivals(this.store, {
      ask: (blob, parts) => this.reports.send({ type: "need", page, blob, parts }),
      onArrival: () => void this.work(),
      onGivenUp: (text) => {
        this.reports.rest();
        this.fail(this.failed("data", text));
      },
    });
    this.answers = new Answers({
      send: (reply, data) => this.reports.send({ type: "reply", page, ...reply }, [data]),
      onProgress: (done, total) => this.reports.busy("reading", done, total),
      onScreen: () => {
        const [screen] = this.state.screens;
        return screen?.() ?? Promise.reject(new Error("no view of it is open in this page"));
      },
    });
    this.checks = new Checks(this.engine, {
      isReady: () => this.isCheckable,
      ask: () => {
        this.probe = this.standing?.probe;
        void this.work();
      },
      isApart: () => this.isApart(),
    });
    this.blobs = new Blobs((blob, parts) => this.reports.send({ type: "need", page, blob, parts }));
    this.features = features.flatMap((feature) => feature.run?.(this.host()) ?? []);
    this.listen("msg:custom", (content: unknown, buffers: readonly Buffer[]) =>
      this.receive(content, buffers),
    );
    this.listen("comm_live_update", () => this.disconnect());
    this.undo.push(
      ...this.features.map((feature) => () => feature.close?.()),
      () => this.checks.dispose(),
      keepSnapshots(model),
      watchKernel(model, () => this.disconnect()),
      effect(() => {
        this.state.acting.value;
        this.state.withoutEdits.value;
        this.state.earlier.value;
        void this.work();
      }),
      this.state.acting.subscribe(() => {
        const before = this.bentAs;
        this.bentAs = said(this.state);
        // It was of the edits before. One that is switched off is none, and Python may tell the same once more.
        if (this.bentAs !== before) this.tested = this.state.parity.value = null;
      }),
    );
    this.state.setPrecision.value = (precision) =>
      this.reports.send({ type: "setprecision", page, precision });
    this.sayUnavailable();
    this.reports.greet();
    this.reports.followPointer();
  }

  /** A view was mounted; returns what to call when it is taken away. */
  addView(): () => void {
    const leave = this.engine.watch();
    this.released = false;
    this.reports.tellHealth();
    void this.work();
    let here = true;
    return () => {
      if (!here) return;
      here = false;
      leave();
      if (!this.closed) this.reports.tellHealth();
      void this.work();
    };
  }

  dispose(): void {
    if (this.closed) return;
    this.closed = true;
    this.reports.dispose();
    for (const undo of this.undo) undo();
    this.blobs.drop(undefined, GONE);
    this.answers.clear();
    this.arrivals.stop();
    this.engine.dispose();
    this.arrivals.release();
    if (this.state.snapshot.value !== null) URL.revokeObjectURL(this.state.snapshot.value);
    this.state.snapshot.value = null;
    this.state.connected.value = false;
    this.state.setPrecision.value = null;
    this.state.status.value = says.closed();
  }

  /** Python is gone: nothing more will come or be heard, and what is here goes on. */
  private disconnect(): void {
    if (!this.state.connected.peek()) return;
    this.state.connected.value = false;
    this.checks.dispose();
    this.state.setPrecision.value = null;
    this.reports.silence();
    this.blobs.drop(undefined, GONE);
    this.arrivals.stop();
    this.answers.clear();
    this.sayDisconnected();
    void this.work();
  }

  private sayDisconnected(): void {
    const shown = this.state.session.peek() !== null || this.state.snapshot.peek() !== null;
    if (!this.closed) this.state.status.value = says.restarted(shown);
  }

  private listen(event: string, callback: (...values: never[]) => void): void {
    this.model.on(event, callback as () => void);
    this.undo.push(() => this.model.off(event, callback as () => void));
  }

  /** Says how far the engine is, to Python and in the views. */
  private follow({ stage, done, total }: EngineProgress): void {
    if (this.closed) return;
    this.reports.busy(stage === "run" ? "running" : "compiling", done, total);
    if (stage === "compile") {
      this.compilingSince ||= performance.now();
      const seconds = (performance.now() - this.compilingSince) / 1000;
      this.state.status.value = says.compiling(done, total, seconds);
    } else if (stage === "run" && this.compilingSince > 0) {
      this.compilingSince = 0;
      this.state.status.value = says.running();
    }
  }

  // Listening

  private receive(content: unknown, buffers: readonly Buffer[]): void {
    const message = decode(content);
    if (message === undefined || this.closed) return;
    for (const takes of [this.takes, ...this.features.map(({ messages }) => messages)])
      (takes?.[message.type] as Taker | undefined)?.(message, buffers);
  }

  private readonly takes: Messages = {
    state: (message) => this.show(message),
    patches: (message, buffers) => this.patch(message, buffers),
    part: (message, buffers) => {
      this.arrivals.take(message, buffers);
      this.blobs.take(message, buffers);
    },
    read: (message) => this.queue(message),
    done: ({ read }) => this.answers.done(read),
    verified: (message) => this.judge(message),
    probe: (message) => {
      if (message.page !== this.page || this.wanted === undefined) return;
      const { plan } = this.wanted;
      if (this.standing?.plan !== plan) {
        this.apart.clear();
        this.checks.restart();
      }
      this.standing = { plan, probe: message };
      this.probe = message;
      void this.work();
    },
    release: () => {
      this.released = true;
      void this.work();
    },
    refuse: ({ page, title, text }) => {
      if (page !== this.page) return;
      this.reports.greeted();
      this.refused = true;
      this.state.status.value = says.failed(title, text);
    },
  };

  private show(state: State): void {
    this.reports.greeted();
    if (this.refused) return; // it is for another page
    if (this.wanted !== undefined && state.revision < this.wanted.revision) return;
    if (state.plan !== this.wanted?.plan) this.tested = this.state.earlier.value = null;
    if (state.revision !== this.wanted?.revision) {
      this.state.parity.value = this.tested;
      this.patches = []; // they are in the weights by now
      this.state.rows.value = undefined;
    }
    this.wanted = state;
    this.arrivals.want({ hashes: this.needed(state), sizes: state.sizes });
    void this.work();
  }

  /** Takes a message on top of what is wanted; where it isn't, what was lost before it is asked for. */
  private advance(
    { base, revision }: Pick<Patches, "base" | "revision">,
    take: () => boolean,
  ): void {
    const { wanted } = this;
    if (wanted === undefined || revision <= wanted.revision) return;
    if (base !== wanted.revision) this.reports.greet();
    else if (take()) {
      this.wanted = { ...wanted, revision };
      void this.work();
    }
  }

  private patch(message: Patches, [buffer]: readonly Buffer[]): void {
    this.advance(message, () => {
      const patches = patchesOf(message.rectangles, buffer);
      if (patches === undefined) {
        this.reports.greet(); // as if it had been lost
        return false;
      }
      this.patches = [...this.patches, ...patches];
      this.state.parity.value = this.tested;
      return true;
    });
  }

  // Features

  private host(): Host {
    const { page, model, state, engine, blobs } = this;
    return {
      page,
      state,
      engine,
      python: {
        send: (message, buffers) => this.reports.send(message, buffers),
        trait: (name) => model.get(name),
        advance: (message, take) => this.advance(message, take),
        wake: () => void this.work(),
      },
      blob: (name) => (state.connected.peek() ? blobs.get(name) : Promise.reject(new Error(GONE))),
      drop: (name) => blobs.drop(name),
      feed: (fed, taken) => this.feed(fed, taken),
      read: (key) => engine.read(key),
    };
  }

  private async feed(fed: Fed | null, taken = false): Promise<void> {
    this.leaving = undefined;
    if (fed !== null) return this.engine.feed(fed);
    this.leaving = taken ? (this.wanted?.revision ?? -1) : Number.NEGATIVE_INFINITY;
    void this.work();
  }

  /** Lets go of what was fed, once something else is shown. */
  private async leaveFed(): Promise<void> {
    if (this.leaving === undefined || this.ran <= this.leaving) return;
    this.leaving = undefined;
    await this.engine.feed(null);
  }

  private needed({ plan, weights, inputs, injected, snapshot, classes }: State): Set<string> {
    if (this.engine.device !== undefined) {
      const names = classes === "" ? [] : [classes];
      return new Set([plan, ...weights, ...inputs, ...injected, ...names]);
    }
    return new Set(snapshot === "" ? [plan] : [plan, snapshot]);
  }

  private queue(read: Read): void {
    if (!["", this.page].includes(read.page) || !this.answers.ask(read)) return;
    const held = this.features.flatMap((feature) => feature.asked?.() ?? []);
    this.held.set(read, () => held.some((one) => one()));
    // Python sends the State first, so that one was lost.
    if (read.revision > (this.wanted?.revision ?? -1)) this.reports.greet();
    this.engine.hurry();
    void this.work();
  }

  private judge(verdict: Verified): void {
    const { page, revision, reference, layers, flawed, edits, note, beyond } = verdict;
    const sampled = page !== "";
    if (sampled ? page !== this.page : revision !== this.wanted?.revision) return;
    // Found of other edits than those of now.
    if (sampled && edits !== said(this.state)) return;
    const bent = edits !== "";
    const parity = { reference, layers, flawed, note, beyond, sampled, bent, at: Date.now() };
    if (sampled) this.tested = parity;
    if (!sampled || this.state.parity.peek()?.sampled !== false) this.state.parity.value = parity;
  }

  // Working

  /** Does what there is to do; one at a time, and again when something came meanwhile. */
  private async work(): Promise<void> {
    this.again = true;
    if (this.working) return;
    this.working = true;
    while (this.again && !this.closed) {
      this.again = false;
      try {
        await this.step();
      } catch (error) {
        this.stumble(error);
      }
    }
    this.working = false;
  }

  private async step(): Promise<void> {
    const state = this.wanted;
    if (state === undefined) return;
    if (this.unwanted && this.answers.waiting.length === 0) {
      this.leave();
      return;
    }
    const { engine } = this;
    if (!this.gathered()) {
      engine.prepare(state.plan);
      return;
    }
    if (engine.device === undefined) {
      this.showSnapshot(state);
      return;
    }
    if (engine.device.lost) return; // onRestored goes on
    if (state.classes !== this.named) {
      this.named = state.classes;
      this.state.classes.value = textsOf(this.store.get(state.classes));
    }
    // Edits first: what runs has them.
    await this.edit();
    await this.bring(state);
    await this.edit(); // where nothing was shown, what cannot be is only known now
    if (this.ran < 0 || this.closed) return;
    await this.leaveFed();
    for (const read of this.answers.waiting) {
      if (!this.hasEdits(this.state.acting.peek())) {
        this.again = true; // they came before this read, while others were given
        return;
      }
      if (this.held.get(read)?.()) {
        this.reports.busy("receiving", 0, 1);
        return; // what it is to be of is on its way
      }
      // All values are of one run, also where a source is live or the network trains meanwhile.
      await engine
        .use(() => this.answers.answer(engine, read, this.ran))
        .catch((error) => this.failRead(read, error));
    }
    this.reports.rest();
    if (this.state.connected.value) this.state.status.value = says.ready();
    else this.sayDisconnected();
    if (this.unwanted) this.leave();
    else await this.sample(state);
    engine.idle();
  }

  /** Whether everything that is wanted is here; else says what is missing, and asks again. */
  private gathered(): boolean {
    const { connected } = this.state;
    if (!connected.peek()) this.arrivals.hold(); // a view that went has let go of them
    this.arrivals.rest();
    const { left } = this.arrivals;
    if (left === undefined) return true;
    this.reports.busy("receiving", left.done, left.total);
    // Asked again: Python may have gone while it was told.
    if (connected.peek()) {
      this.state.status.value = says.receiving(left.done, left.total);
      this.arrivals.await();
    } else this.sayDisconnected(); // nothing else will come
    return false;
  }

  /** Has the engine run this State. */
  private async bring(state: State): Promise<void> {
    const { engine } = this;
    const { plan, weights, inputs, revision } = state;
    const isAsked = this.answers.waiting.length > 0;
    const { rows: now, earlier } = this.state;
    // Whoever asks for values gets those of now, whatever is looked at meanwhile.
    const rows = (isAsked ? null : earlier.peek()) ?? now.peek();
    this.again ||= isAsked && earlier.peek() !== null;
    const content: Content = { plan, weights, inputs, patches: this.patches, rows };
    if (this.ran === revision && rows === engine.shown?.rows) return;
    const urgent = this.answers.waiting.length > 0;
    // Python takes over what was fed: that is no other input.
    const again = this.ran >= 0 && this.state.fed.peek() === null;
    await engine.show(content, { urgent, again });
    if (this.closed || engine.shown === undefined) return; // the context was lost meanwhile
    this.ran = revision;
    const run = this.state.run.peek();
    if (run !== null) this.reports.tellRun(run, revision, false);
    this.reports.tellHealth();
  }

  /** Whether the engine was given these. */
  private hasEdits(edits: readonly Edit[]): boolean {
    return edits === this.edits || edits.length + this.edits.length === 0;
  }

  /** Gives the engine the edits of now; where it cannot take them, it has those before. */
  private async edit(): Promise<void> {
    const { acting, unlisted, withoutEdits, editTrouble } = this.state;
    // Whoever asks for values gets those of the edits, whatever is looked at meanwhile.
    const without = withoutEdits.peek() && this.answers.waiting.length === 0;
    const edits = (without ? unlisted : acting).peek();
    this.again ||= withoutEdits.peek() !== without;
    if (this.hasEdits(edits)) return;
    if (this.engine.shown !== undefined) this.edits = edits;
    try {
      await this.engine.edit(edits);
      editTrouble.value = "";
    } catch (error) {
      const failure = this.failure(error);
      if (failure === undefined) throw error;
      editTrouble.value = failure.text;
      this.reports.send({ ...failure, id: "", kind: "edit" });
    }
  }

  /** Frees what nobody looks at; a view that comes all the same finds what is still in the page. */
  private leave(): void {
    this.engine.release();
    this.ran = -1;
    this.reports.rest();
    this.reports.tellHealth();
    if (!this.state.connected.peek()) this.arrivals.release();
  }

  /** Answers the parity check when nothing else is to be done; what comes meanwhile goes first. */
  private async sample(state: State): Promise<void> {
    const { engine, probe } = this;
    if (probe === undefined) return;
    const bands = probe.keys.map((key, k) => ({ key, bands: probe.bands[k] ?? [] }));
    const isFree = (): boolean =>
      this.answers.waiting.length === 0 &&
      this.wanted === state &&
      !this.closed &&
      this.probe === probe;
    try {
      await engine.use(async (session) => {
        const edits = said(this.state);
        // Answered once the edits and the current weights are back.
        if (edits === null || this.state.earlier.peek() !== null) return;
        if (!this.hasEdits(this.state.acting.peek())) return;
        await macrotask();
        const { twins, fedInput: fed } = engine;
        const samples = await sampled(session, bands, isFree);
        if (samples === undefined) return;
        const found = twins && edits === "" ? await apartIn(session, twins, isFree) : [];
        if (found === undefined) return;
        if (fed !== "") samples.push((await session.read(beforeKey(fed))).slice());
        if (!isFree()) return;
        this.probe = undefined;
        this.tellSamples(joined(samples).buffer, edits, fed, found);
        this.checks.made();
      });
    } catch (error) {
      if (this.probe === probe) this.probe = undefined;
      if (!this.closed && !engine.device?.lost) warnOnce(`no parity check: ${error}`);
    }
  }

  private tellSamples(
    data: ArrayBuffer,
    edits: string,
    fed: string,
    apart: readonly Apart[],
  ): void {
    const { page, ran: revision } = this;
    const { byteLength: bytes } = data;
    if (bytes > MAX_PROBED) return;
    for (const [key] of apart) this.apart.add(key);
    const count = Math.max(1, Math.ceil(bytes / CHUNK));
    const most = { apart: apart.slice(0, MOST_APART) };
    const whole = { type: "probed", page, revision, count, bytes, edits, fed, ...most } as const;
    for (let part = 0; part < count; part++)
      this.reports.send({ ...whole, part }, [data.slice(part * CHUNK, (part + 1) * CHUNK)]);
  }

  /** Whether the current numbers can be compared with Python's and no run is in flight. */
  private get isCheckable(): boolean {
    const { standing, wanted, engine } = this;
    const { connected, claim, earlier } = this.state;
    const isChanging = claim.peek() === "changing";
    const isHere = wanted !== undefined && standing?.plan === wanted.plan && connected.peek();
    const isShown = engine.shown !== undefined && engine.device?.lost !== true;
    return isHere && isShown && !isChanging && earlier.peek() === null && said(this.state) !== null;
  }

  private async isApart(): Promise<boolean> {
    const { engine, state } = this;
    if (engine.twins === undefined || said(state) !== "" || !this.hasEdits([])) return false;
    const isFree = () => this.answers.waiting.length === 0 && !this.closed;
    const found = await engine.use(async (session) => {
      const { twins } = engine;
      return twins && apartIn(session, twins, isFree);
    });
    return found?.some(([key]) => !this.apart.has(key)) ?? false;
  }

  /** Whether no view shows it, and Python is gone or has let it go; weights that change here are still wanted. */
  private get unwanted(): boolean {
    const left = (this.released && this.state.claim.peek() === "") || !this.state.connected.peek();
    return this.engine.views === 0 && left;
  }

  // Pages that cannot draw, and failures

  private sayUnavailable(): void {
    const { unavailable } = this.engine;
    if (unavailable === undefined) return;
    const found = `${unavailable.message} (${unavailable.detail})`;
    this.state.status.value = says.unsupported(unavailable.reason, found);
  }

  /** For a page that cannot draw: what the network is, and Python's picture of it. */
  private showSnapshot(state: State): void {
    this.reports.rest();
    this.engine.describe(state.plan);
    this.sayUnavailable();
    const png = this.store.get(state.snapshot);
    if (png !== undefined) {
      if (this.state.snapshot.value !== null) URL.revokeObjectURL(this.state.snapshot.value);
      this.state.snapshot.value = URL.createObjectURL(new Blob([png], { type: "image/png" }));
    }
    if (!this.state.connected.peek()) this.sayDisconnected();
  }

  /** A read that cannot be answered fails alone: the network has run, and others go on. */
  private failRead(read: Read, error: unknown): void {
    const failure = this.failure(error);
    if (failure === undefined) throw error;
    this.answers.done(read.id);
    this.reports.send({ ...failure, id: read.id });
  }

  private stumble(error: unknown): void {
    this.reports.rest();
    this.compilingSince = 0;
    const failure = this.failure(error);
    if (failure !== undefined) this.fail(failure);
  }

  /** What a failed step means; nothing where the session ended or a lost context comes back. */
  private failure(error: unknown): Failure | undefined {
    if (this.closed) return undefined;
    // By name: another bundle's copy of these classes may have opened the device.
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    if (name === "SessionClosed") return undefined;
    if (name === "ContextLostError" || this.engine.device?.lost) return undefined; // onRestored goes on
    const device = name === "ShaderError" || name === "PlanError";
    return this.failed(device ? "device" : "internal", message);
  }

  private failed(kind: Failed["kind"], text: string): Failure {
    return { type: "failed", page: this.page, kind, text: text.slice(0, 10_000) };
  }

  private fail(failure: Failure): void {
    this.state.status.value = says.failed("This network could not be run here", failure.text);
    this.reports.send({ ...failure, id: "" });
    for (const { id } of this.answers.waiting) {
      this.answers.done(id);
      this.reports.send({ ...failure, id });
    }
  }
}

/** Not crypto.randomUUID: pages served over plain http don't have it. */
function randomName(): string {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return [...numbers].map((n) => n.toString(16).padStart(8, "0")).join("");
}
