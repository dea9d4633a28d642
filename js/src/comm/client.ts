// Python's client of a page's engine: says hello, gathers what the engine is to show, answers reads, tells how it goes.
import type { AnyModel } from "@anywidget/types";
import { effect } from "@preact/signals";
import type { Buffer } from "../buffers.ts";
import { takeCode } from "../code.ts";
import { type Content, Engine } from "../engine/engine.ts";
import { pageStore } from "../engine/store.ts";
import { joined } from "../gl/numbers.ts";
import type { Progress as EngineProgress, RunInfo } from "../gl/types.ts";
import {
  type Failed,
  type FromPage,
  PACKAGE_VERSION,
  PROTOCOL,
  type Probe,
  type Progress,
  type Read,
  type Spot,
  type State,
  type Verified,
} from "../messages.ts";
import { createState, type Parity, type ViewerState } from "../state.ts";
import { says } from "../status.ts";
import { Answers } from "./answers.ts";
import { Arrivals } from "./arrivals.ts";
import { hostName, watchKernel } from "./host.ts";
import { Rooms } from "./rooms.ts";
import { keepStills } from "./snapshots.ts";
import { decode, macrotask, spaced, warnOnce } from "./wire.ts";

/** Python's time-outs start again with each message; it hears from a busy page this often. */
const BEAT_MS = 500;
/** Without an answer a hello is said again after this long, then twice as long, and so on. */
const HELLO_MS = 1_000;
/** A pointer moves more often than anybody in Python needs to know. */
const POINTED_MS = 100;

/** A failure before it is said of which read. */
type Failure = Omit<Failed, "id">;

export class CommClient {
  readonly state: ViewerState;
  private readonly page = randomName();
  private readonly model: AnyModel;
  private readonly engine: Engine;
  private readonly store = pageStore();
  private readonly arrivals: Arrivals;
  private readonly answers: Answers;
  private readonly rooms: Rooms;
  private readonly undo: (() => void)[] = [];
  private released = false;
  /** Python cannot work with this page. */
  private refused = false;
  private closed = false;

  private wanted: State | undefined;
  /** The revision whose values the engine has. */
  private ran = -1;
  private greeting: ReturnType<typeof setTimeout> | undefined;
  /** What Python was told of the context last. */
  private health = "";
  private probe: Probe | undefined;
  /** What the self-test has found of this Plan: it holds when other inputs come. */
  private tested: Parity | null = null;
  private working = false;
  private again = false;
  private stage: Pick<Progress, "stage" | "done" | "total"> | undefined;
  private compilingSince = 0;
  private lastBeat = 0;
  private lastHeard = 0;
  private readonly beat: ReturnType<typeof setInterval>;

  /** `onRoom` is given the module of a room, by its name. */
  constructor(model: AnyModel, onRoom: (name: string, module: unknown) => void) {
    this.model = model;
    const { page } = this;
    this.engine = new Engine({
      onProgress: (progress) => this.follow(progress),
      onLost: () => {
        this.state.status.value = says.lost(this.state.plan.value?.layers.length ?? 0);
        this.tellHealth();
      },
      onRestored: () => {
        this.ran = -1;
        void this.work();
      },
      onTimed: (run) => this.tellRun(run, true),
      onPace: (running, runsPerSecond) =>
        this.send({ type: "pace", page, running, runs_per_second: runsPerSecond }),
      isBusy: () => this.working,
    });
    this.state = createState(this.engine.signals);
    this.arrivals = new Arrivals(this.store, {
      ask: (blob, parts) => this.send({ type: "need", page, blob, parts }),
      onArrival: () => void this.work(),
      onGivenUp: (text) => {
        this.stage = undefined;
        this.fail(this.failed("data", text));
      },
    });
    this.answers = new Answers({
      send: (reply, data) => this.send({ type: "reply", page, ...reply }, [data]),
      onProgress: (done, total) => this.busy("reading", done, total),
    });
    this.rooms = new Rooms(model.get("_code"), {
      ask: (blob, parts) => this.send({ type: "need", page, blob, parts }),
      // Before the first State Python is busy with something else, and sends all when it is not.
      heard: () => (this.wanted === undefined ? performance.now() : this.lastHeard),
      onRoom,
      onTrouble: (text) => {
        this.state.roomTrouble.value = text;
      },
    });
    this.listen("msg:custom", (content: unknown, buffers: readonly Buffer[]) =>
      this.receive(content, buffers),
    );
    this.listen("comm_live_update", () => this.disconnect());
    this.beat = setInterval(() => this.tell(), BEAT_MS);
    this.undo.push(
      keepStills(model),
      watchKernel(model, () => this.disconnect()),
    );
    this.sayUnavailable();
    this.greet(HELLO_MS);
    this.tellPointed();
  }

  /** A view was mounted; returns what to call when it is taken away. */
  addView(): () => void {
    const leave = this.engine.watch();
    this.released = false;
    this.tellHealth();
    void this.work();
    let here = true;
    return () => {
      if (!here) return;
      here = false;
      leave();
      if (!this.closed) this.tellHealth();
      void this.work();
    };
  }

  dispose(): void {
    if (this.closed) return;
    this.closed = true;
    clearInterval(this.beat);
    clearTimeout(this.greeting);
    for (const undo of this.undo) undo();
    this.answers.clear();
    this.arrivals.stop();
    this.rooms.stop();
    this.engine.dispose();
    this.arrivals.release();
    if (this.state.poster.value !== null) URL.revokeObjectURL(this.state.poster.value);
    this.state.poster.value = null;
    this.state.connected.value = false;
    this.state.status.value = says.closed();
  }

  /** Python is gone: nothing more will come or be heard, and what is here goes on. */
  private disconnect(): void {
    if (!this.state.connected.peek()) return;
    this.state.connected.value = false;
    clearInterval(this.beat);
    clearTimeout(this.greeting);
    this.arrivals.stop();
    this.rooms.stop();
    this.answers.clear();
    this.sayDisconnected();
    void this.work();
  }

  private sayDisconnected(): void {
    const shown = this.state.session.peek() !== null || this.state.poster.peek() !== null;
    if (!this.closed) this.state.status.value = says.restarted(shown);
  }

  private listen(event: string, callback: (...values: never[]) => void): void {
    this.model.on(event, callback as () => void);
    this.undo.push(() => this.model.off(event, callback as () => void));
  }

  // Talking

  private send(message: FromPage, buffers?: ArrayBuffer[]): void {
    if (!this.state.connected.peek()) return;
    try {
      this.model.send(message, undefined, buffers);
    } catch (error) {
      // The kernel is gone, perhaps since before this page could be told of it.
      warnOnce(`could not reach Python: ${error}`);
      this.disconnect();
    }
  }

  /** Says hello until Python answers with a State: a frame can get lost, as any other. */
  private greet(wait: number): void {
    clearTimeout(this.greeting);
    const { device, unavailable } = this.engine;
    this.send({
      type: "hello",
      page: this.page,
      version: PACKAGE_VERSION,
      protocol: PROTOCOL,
      have: [...this.arrivals.have, ...this.rooms.have],
      renderer: device?.capabilities.renderer ?? "",
      target: device?.capabilities.target ?? null,
      problem: unavailable === undefined ? "" : `${unavailable.message} (${unavailable.detail})`,
      browser: navigator.userAgent.slice(0, 1000),
      host: hostName(),
    });
    if (this.state.connected.peek()) {
      this.greeting = setTimeout(() => this.greet(2 * wait), wait);
    }
  }

  /** What is under the reader's pointer. */
  private tellPointed(): void {
    const { page } = this;
    const pointed = spaced<Spot | null>(POINTED_MS, (at) =>
      this.send({ type: "pointed", page, at }),
    );
    let first = true;
    this.undo.push(
      effect(() => {
        const at = this.state.pointed.value;
        if (!first) pointed.take(at);
        first = false;
      }),
      pointed.dispose,
    );
  }

  /** Tells Python how the graphics context is, when anything of that has changed. */
  private tellHealth(): void {
    const { bytes, losses, views, device } = this.engine;
    const { page } = this;
    const lost = device?.lost === true;
    const words = `${lost} ${losses} ${bytes} ${views}`;
    if (words === this.health) return;
    this.health = words;
    this.send({ type: "health", page, lost, losses, bytes, views });
  }

  private tellRun({ ms, clock, passes }: RunInfo, again: boolean): void {
    const { page, ran: revision } = this;
    this.send({ type: "ran", page, revision, ms, timing: clock, passes, again });
  }

  /** Tells Python what this page is busy with. */
  private tell(): void {
    if (this.stage === undefined) return;
    this.lastBeat = performance.now();
    this.send({ type: "progress", page: this.page, ...this.stage });
  }

  /** Says what is going on; Python hears it at once when the last word is long ago. */
  private busy(stage: Progress["stage"], done: number, total: number): void {
    this.stage = { stage, done, total };
    if (performance.now() - this.lastBeat > BEAT_MS) this.tell();
  }

  /** Says how far the engine is, to Python and in the views. */
  private follow({ stage, done, total }: EngineProgress): void {
    if (this.closed) return;
    this.busy(stage === "run" ? "running" : "compiling", done, total);
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
    this.lastHeard = performance.now();
    if (message.type === "state") this.show(message);
    else if (message.type === "part") {
      this.arrivals.take(message, buffers);
      takeCode(message, buffers);
    } else if (message.type === "read") this.queue(message);
    else if (message.type === "done") this.answers.done(message.read);
    else if (message.type === "verified") this.judge(message);
    else if (message.type === "probe") {
      if (message.page !== this.page) return;
      this.probe = message;
      void this.work();
    } else if (message.type === "release") {
      this.released = true;
      void this.work();
    } else if (message.page === this.page) {
      clearTimeout(this.greeting);
      this.refused = true;
      this.state.status.value = says.failed(message.title, message.text);
    }
  }

  private show(state: State): void {
    clearTimeout(this.greeting);
    if (this.refused) return; // it is for another page
    if (this.wanted !== undefined && state.revision < this.wanted.revision) return;
    if (state.plan !== this.wanted?.plan) this.tested = null;
    if (state.revision !== this.wanted?.revision) this.state.parity.value = this.tested;
    this.wanted = state;
    this.arrivals.want({ hashes: this.needed(state), sizes: state.sizes });
    void this.work();
  }

  private needed({ plan, weights, inputs, poster }: State): Set<string> {
    if (this.engine.device !== undefined) return new Set([plan, ...weights, ...inputs]);
    return new Set(poster === "" ? [plan] : [plan, poster]);
  }

  private queue(read: Read): void {
    if (!this.answers.ask(read)) return;
    // Python sends the State first, so that one was lost.
    if (read.revision > (this.wanted?.revision ?? -1)) this.greet(HELLO_MS);
    this.engine.hurry();
    void this.work();
  }

  private judge({ page, revision, reference, layers, flawed }: Verified): void {
    const sampled = page !== "";
    if (sampled ? page !== this.page : revision !== this.wanted?.revision) return;
    const parity = { reference, layers, flawed, sampled };
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
    if (!this.gathered()) return;
    const { engine } = this;
    if (engine.device === undefined) {
      this.showPoster(state);
      return;
    }
    if (engine.device.lost) return; // onRestored goes on
    await this.bring(state);
    if (this.ran < 0 || this.closed) return;
    for (const read of this.answers.waiting) {
      await this.answers
        .answer(engine, read, this.ran)
        .catch((error) => this.failRead(read, error));
    }
    this.stage = undefined;
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
    this.busy("receiving", left.done, left.total);
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
    const content: Content = { plan, weights, inputs };
    if (this.ran === revision) return;
    const urgent = this.answers.waiting.length > 0;
    await engine.show(content, { urgent, again: this.ran >= 0 });
    if (this.closed || engine.shown === undefined) return; // the context was lost meanwhile
    this.ran = revision;
    const run = this.state.run.peek();
    if (run !== null) this.tellRun(run, false);
    this.tellHealth();
  }

  /** Frees what nobody looks at; a view that comes all the same finds what is still in the page. */
  private leave(): void {
    this.engine.release();
    this.ran = -1;
    this.stage = undefined;
    this.tellHealth();
    if (!this.state.connected.peek()) this.arrivals.release();
  }

  /** Answers the self-test when nothing else is to be done; what comes meanwhile goes first. */
  private async sample(state: State): Promise<void> {
    const { engine, page, probe } = this;
    if (probe === undefined) return;
    const samples: Float32Array<ArrayBuffer>[] = [];
    try {
      for (const [k, key] of probe.keys.entries()) {
        await macrotask();
        if (this.answers.waiting.length > 0 || this.wanted !== state || this.closed) return;
        samples.push(await engine.sample(key, probe.bands[k] ?? []));
      }
    } catch (error) {
      if (this.probe === probe) this.probe = undefined;
      if (!this.closed && !engine.device?.lost) warnOnce(`no self-test: ${error}`);
      return;
    }
    if (this.probe !== probe) return; // another one has come meanwhile
    this.probe = undefined;
    this.send({ type: "probed", page, revision: this.ran }, [joined(samples).buffer]);
  }

  /** Whether nobody looks at it, and Python has let it go or is gone. */
  private get unwanted(): boolean {
    return this.engine.views === 0 && (this.released || !this.state.connected.peek());
  }

  // Pages that cannot draw, and failures

  private sayUnavailable(): void {
    const { unavailable } = this.engine;
    if (unavailable === undefined) return;
    const found = `${unavailable.message} (${unavailable.detail})`;
    this.state.status.value = says.unsupported(unavailable.reason, found);
  }

  /** For a page that cannot draw: what the network is, and Python's picture of it. */
  private showPoster(state: State): void {
    this.stage = undefined;
    this.engine.describe(state.plan);
    this.sayUnavailable();
    const png = this.store.get(state.poster);
    if (png !== undefined) {
      if (this.state.poster.value !== null) URL.revokeObjectURL(this.state.poster.value);
      this.state.poster.value = URL.createObjectURL(new Blob([png], { type: "image/png" }));
    }
    if (!this.state.connected.peek()) this.sayDisconnected();
  }

  /** A read that cannot be answered fails alone: the network has run, and others go on. */
  private failRead(read: Read, error: unknown): void {
    const failure = this.failure(error);
    if (failure === undefined) throw error;
    this.answers.done(read.id);
    this.send({ ...failure, id: read.id });
  }

  private stumble(error: unknown): void {
    this.stage = undefined;
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
    this.send({ ...failure, id: "" });
    for (const { id } of this.answers.waiting) {
      this.answers.done(id);
      this.send({ ...failure, id });
    }
  }
}

/** Not crypto.randomUUID: pages served over plain http don't have it. */
function randomName(): string {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return [...numbers].map((n) => n.toString(16).padStart(8, "0")).join("");
}
