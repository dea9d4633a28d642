// The page's end of the line to Python: says hello, gathers what it is shown, runs it, answers reads.
import type { AnyModel } from "@anywidget/types";
import { effect } from "@preact/signals";
import { parseContainer } from "./gl/format.ts";
import { joined } from "./gl/numbers.ts";
import { createSession } from "./gl/session.ts";
import {
  type Device,
  DeviceUnavailable,
  type Progress as GlProgress,
  PlanError,
  type RunInfo,
  type Session,
} from "./gl/types.ts";
import { hostName, watchKernel } from "./host.ts";
import {
  CHUNK,
  type Failed,
  type FromPage,
  PACKAGE_VERSION,
  type Part,
  PROTOCOL,
  type Probe,
  type Progress,
  type Read,
  type Spot,
  type State,
  type Verified,
} from "./messages.ts";
import { spaced, watchPace } from "./pace.ts";
import type { PlanHeader } from "./plan.ts";
import { type Parity, type Status, says, type ViewerState } from "./state.ts";
import { keepStills } from "./still.ts";
import { pageStore } from "./store.ts";
import { createTiming, type Timing } from "./timing.ts";
import { type Buffer, bytesOf, decode, macrotask, warnOnce } from "./wire.ts";

/** Python's time-outs start again with each message; it hears from a busy page this often. */
const BEAT_MS = 500;
/** Without an answer a hello is said again after this long, then twice as long, and so on. */
const HELLO_MS = 1_000;
/** Parts that are missing are asked for once after this silence, and given up after the second. */
const QUIET_MS = 3_000;
const GIVE_UP_MS = 60_000;
/** Sending blocks the page; it may breathe after this many bytes. */
const BREATHE_BYTES = 16 * 2 ** 20;
/** A pointer moves more often than anybody in Python needs to know. */
const POINTED_MS = 100;
/** An answer is kept this long for parts that got lost, or until Python has all of it. */
const KEEP_MS = 60_000;

interface Arriving {
  readonly data: Uint8Array<ArrayBuffer>;
  readonly missing: Set<number>;
  asked: boolean;
}

interface Answer {
  readonly revision: number;
  readonly values: readonly Float32Array<ArrayBuffer>[];
  readonly timer: ReturnType<typeof setTimeout>;
}

/** A failure before it is said of which read. */
type Failure = Omit<Failed, "id">;

export class Connection {
  private readonly page = randomName();
  private readonly model: AnyModel;
  private readonly state: ViewerState;
  private readonly store = pageStore();
  private device: Device | undefined;
  /** Why there is no device: for Python, and for the reader. */
  private problem = "";
  private unsupported: Status | undefined;
  private session: Session | undefined;
  private readonly undo: (() => void)[] = [];
  private views = 0;
  private released = false;
  /** Python cannot work with this page. */
  private refused = false;
  private closed = false;

  private wanted: State | undefined;
  private greeting: ReturnType<typeof setTimeout> | undefined;
  private readonly held = new Set<string>();
  /** Blobs that Python believes this page to have. */
  private readonly claimed: Set<string>;
  private readonly arriving = new Map<string, Arriving>();
  private lastPart = 0;
  private patience: ReturnType<typeof setTimeout> | undefined;
  private readonly timing: Timing;

  /** What the session holds: the Plan, its weights and inputs by hash, the revision it has run. */
  private plan = "";
  private weights: readonly string[] = [];
  private inputs: readonly string[] = [];
  private ran = -1;

  /** How often the context was lost, and what Python was told of it. */
  private losses = 0;
  private health = "";

  private readonly reads = new Map<string, Read>();
  private readonly answers = new Map<string, Answer>();
  private probe: Probe | undefined;
  /** What the self-test has found of this Plan: it holds when other inputs come. */
  private tested: Parity | null = null;
  private working = false;
  private again = false;
  private stage: Pick<Progress, "stage" | "done" | "total"> | undefined;
  private lastBeat = 0;
  private readonly beat: ReturnType<typeof setInterval>;

  constructor(model: AnyModel, state: ViewerState) {
    this.model = model;
    this.state = state;
    this.claimed = new Set(this.store.hashes);
    this.listen("msg:custom", (content: unknown, buffers: readonly Buffer[]) =>
      this.receive(content, buffers),
    );
    this.listen("comm_live_update", () => this.part());
    this.beat = setInterval(() => this.tell(), BEAT_MS);
    this.undo.push(
      keepStills(model),
      watchKernel(model, () => this.part()),
    );
    this.timing = createTiming(this.state, {
      shown: () => this.views > 0,
      busy: () => this.working,
      tell: (run) => this.tellRun(run, true),
    });
    this.takeDevice();
    this.greet(HELLO_MS);
    this.tellViews();
  }

  /** What the views' reader does: how fast it runs, and what is under the pointer. */
  private tellViews(): void {
    const { page } = this;
    const pointed = spaced<Spot | null>(POINTED_MS, (at) =>
      this.send({ type: "pointed", page, at }),
    );
    let first = true;
    this.undo.push(
      watchPace(this.state, (running, fps) => {
        this.state.fps.value = fps;
        this.send({ type: "pace", page, running, fps });
      }),
      effect(() => {
        const at = this.state.pointed.value;
        if (!first) pointed.take(at);
        first = false;
      }),
      pointed.dispose,
    );
  }

  /** A view was mounted; returns what to call when it is taken away. */
  addView(): () => void {
    this.views += 1;
    this.released = false;
    this.tellHealth();
    void this.work();
    let here = true;
    return () => {
      if (!here) return;
      here = false;
      this.views -= 1;
      if (!this.closed) this.tellHealth();
      void this.work();
    };
  }

  dispose(): void {
    if (this.closed) return;
    this.closed = true;
    clearInterval(this.beat);
    clearTimeout(this.patience);
    clearTimeout(this.greeting);
    this.timing.dispose();
    for (const undo of this.undo) undo();
    for (const id of [...this.answers.keys()]) this.forget(id);
    this.reads.clear();
    this.arriving.clear();
    this.dropSession();
    if (this.device !== undefined) this.store.giveBack();
    this.device = undefined;
    this.hold(new Set());
    if (this.state.poster.value !== null) URL.revokeObjectURL(this.state.poster.value);
    this.state.poster.value = null;
    this.state.connected.value = false;
    this.state.status.value = says.closed();
  }

  /** Python is gone: nothing more will come or be heard, and what is here goes on. */
  private part(): void {
    if (!this.state.connected.peek()) return;
    this.state.connected.value = false;
    clearInterval(this.beat);
    clearTimeout(this.greeting);
    clearTimeout(this.patience);
    this.reads.clear();
    this.arriving.clear();
    for (const id of [...this.answers.keys()]) this.forget(id);
    this.sayParted();
    void this.work();
  }

  private sayParted(): void {
    const shown = this.session !== undefined || this.state.poster.peek() !== null;
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
      this.part();
    }
  }

  private takeDevice(): void {
    try {
      this.openDevice();
    } catch (error) {
      if (!(error instanceof DeviceUnavailable)) throw error;
      this.problem = `${error.message} (${error.detail})`;
      this.unsupported = says.unsupported(error.reason, this.problem);
      this.state.status.value = this.unsupported;
    }
  }

  /** Says hello until Python answers with a State: a frame can get lost, as any other. */
  private greet(wait: number): void {
    clearTimeout(this.greeting);
    this.send({
      type: "hello",
      page: this.page,
      version: PACKAGE_VERSION,
      protocol: PROTOCOL,
      have: [...this.claimed],
      renderer: this.device?.capabilities.renderer ?? "",
      target: this.device?.capabilities.target ?? null,
      problem: this.problem,
      browser: navigator.userAgent.slice(0, 1000),
      host: hostName(),
    });
    if (this.state.connected.peek()) {
      this.greeting = setTimeout(() => this.greet(2 * wait), wait);
    }
  }

  /** Tells Python how the graphics context is, when anything of that has changed. */
  private tellHealth(): void {
    const lost = this.device?.lost === true;
    const bytes = this.session?.bytes ?? 0;
    const { losses, page, views } = this;
    const words = `${lost} ${losses} ${bytes} ${views}`;
    if (words === this.health) return;
    this.health = words;
    this.send({ type: "health", page, lost, losses, bytes, views });
  }

  private openDevice(): void {
    const device = this.store.takeDevice();
    this.device = device;
    this.state.capabilities.value = device.capabilities;
    this.undo.push(
      device.onLost(() => {
        const layers = this.state.plan.value?.layers.length ?? 0;
        this.state.status.value = says.lost(layers);
        this.losses += 1;
        this.tellHealth();
      }),
      device.onRestored(() => {
        this.ran = -1;
        void this.work();
      }),
    );
  }

  private receive(content: unknown, buffers: readonly Buffer[]): void {
    const message = decode(content);
    if (message === undefined || this.closed) return;
    if (message.type === "state") this.show(message);
    else if (message.type === "part") this.take(message, buffers);
    else if (message.type === "read") this.queue(message);
    else if (message.type === "done") {
      this.reads.delete(message.read);
      this.forget(message.read);
    } else if (message.type === "verified") {
      this.judge(message);
    } else if (message.type === "probe") {
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

  private judge({ page, revision, reference, layers, flawed }: Verified): void {
    const sampled = page !== "";
    if (sampled ? page !== this.page : revision !== this.wanted?.revision) return;
    const parity = { reference, layers, flawed, sampled };
    if (sampled) this.tested = parity;
    if (!sampled || this.state.parity.peek()?.sampled !== false) this.state.parity.value = parity;
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

  // Gathering

  private show(state: State): void {
    clearTimeout(this.greeting);
    if (this.refused) return; // it is for another page
    if (this.wanted !== undefined && state.revision < this.wanted.revision) return;
    if (state.plan !== this.wanted?.plan) this.tested = null;
    if (state.revision !== this.wanted?.revision) this.state.parity.value = this.tested;
    this.wanted = state;
    const needed = this.needed(state);
    this.hold(needed);
    for (const hash of [...this.arriving.keys()]) if (!needed.has(hash)) this.arriving.delete(hash);
    for (const hash of needed) {
      // Thrown out meanwhile, and Python doesn't know.
      if (!this.held.has(hash) && this.claimed.has(hash)) this.need(hash, []);
      this.claimed.add(hash);
    }
    this.lastPart = performance.now();
    void this.work();
  }

  /** Keeps those of these blobs that are here, and lets go of all others. */
  private hold(needed: ReadonlySet<string>): void {
    for (const hash of needed)
      if (!this.held.has(hash) && this.store.hold(hash)) this.held.add(hash);
    for (const hash of [...this.held]) {
      if (needed.has(hash)) continue;
      this.held.delete(hash);
      this.store.release(hash);
    }
  }

  private needed(state: State): Set<string> {
    if (this.device === undefined) {
      return new Set(state.poster === "" ? [state.plan] : [state.plan, state.poster]);
    }
    return new Set([state.plan, ...state.weights, ...state.inputs]);
  }

  private take({ blob, part, count, bytes }: Part, buffers: readonly Buffer[]): void {
    const state = this.wanted;
    if (state === undefined || this.held.has(blob) || !this.needed(state).has(blob)) return;
    const data = bytesOf(buffers[0]);
    const length = Math.min(CHUNK, bytes - part * CHUNK);
    const parts = Math.max(1, Math.ceil(bytes / CHUNK));
    if (
      bytes !== state.sizes[blob] ||
      count !== parts ||
      part >= parts ||
      data?.length !== length
    ) {
      warnOnce(`ignored part ${part + 1} of ${count} of ${blob}: its size is wrong`);
      return;
    }
    this.lastPart = performance.now();
    if (parts === 1 && data.byteOffset % 4 === 0) {
      this.complete(blob, data);
      return;
    }
    let arriving = this.arriving.get(blob);
    if (arriving === undefined) {
      arriving = {
        data: new Uint8Array(bytes),
        missing: new Set(Array.from({ length: parts }, (_, k) => k)),
        asked: false,
      };
      this.arriving.set(blob, arriving);
    }
    arriving.data.set(data, part * CHUNK);
    arriving.missing.delete(part);
    if (arriving.missing.size === 0) this.complete(blob, arriving.data);
    else void this.work();
  }

  private complete(blob: string, data: Uint8Array<ArrayBuffer>): void {
    this.arriving.delete(blob);
    this.store.put(blob, data, 1);
    this.held.add(blob);
    void this.work();
  }

  private need(blob: string, parts: number[]): void {
    this.send({ type: "need", page: this.page, blob, parts });
  }

  /** Whether everything that `state` names is here; else says what is missing, and asks again. */
  private gathered(state: State): boolean {
    const needed = [...this.needed(state)];
    // A view that went has let go of them.
    if (!this.state.connected.peek()) this.hold(new Set(needed));
    const missing = needed.filter((hash) => !this.held.has(hash));
    clearTimeout(this.patience);
    if (missing.length === 0) return true;
    const size = (hash: string) => state.sizes[hash] ?? 0;
    const total = needed.reduce((sum, hash) => sum + size(hash), 0);
    const left = missing.reduce((sum, hash) => {
      const parts = this.arriving.get(hash)?.missing.size;
      return sum + (parts === undefined ? size(hash) : Math.min(size(hash), parts * CHUNK));
    }, 0);
    this.busy("receiving", total - left, total);
    if (!this.state.connected.peek()) {
      this.sayParted();
      return false; // nothing else will come
    }
    this.state.status.value = says.receiving(total - left, total);
    this.patience = setTimeout(() => this.remind(missing), QUIET_MS);
    return false;
  }

  private remind(missing: readonly string[]): void {
    const quiet = performance.now() - this.lastPart;
    for (const blob of missing) {
      const arriving = this.arriving.get(blob) ?? { missing: new Set<number>(), asked: false };
      if (!this.arriving.has(blob) || !arriving.asked) {
        if (quiet < 2 * QUIET_MS) this.need(blob, [...arriving.missing]);
        arriving.asked = true;
      }
    }
    if (quiet < GIVE_UP_MS) {
      this.patience = setTimeout(() => this.remind(missing), QUIET_MS);
      return;
    }
    this.stage = undefined;
    const text = `${missing.length} of the blobs that Python announced did not arrive`;
    this.fail(this.failed("data", `${text}; assign viewer.input again, or run the cell again`));
  }

  // Running and answering

  private queue(read: Read): void {
    const answer = this.answers.get(read.id);
    if (answer !== undefined) {
      const { missing } = read;
      const parts = missing.length > 0 ? missing : answer.values.flatMap(partsOf);
      void this.reply(read.id, answer, parts);
    } else if (this.reads.has(read.id)) {
      if (read.missing.length > 0) this.reads.set(read.id, read); // once all has been sent
    } else {
      this.reads.set(read.id, read);
      // Python sends the State first, so that one was lost.
      if (read.revision > (this.wanted?.revision ?? -1)) this.greet(HELLO_MS);
      // A run under way needn't wait for animation frames any longer.
      if (this.state.running.peek()) this.session?.run({ urgent: true }).catch(() => undefined);
      void this.work();
    }
  }

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
    if (this.closed) this.dropSession();
  }

  private async step(): Promise<void> {
    const state = this.wanted;
    if (state === undefined) return;
    if (this.unwanted && this.reads.size === 0) {
      this.leave();
      return;
    }
    if (!this.gathered(state)) return;
    if (this.device === undefined) {
      this.showPoster(state);
      return;
    }
    if (this.device.lost) return; // onRestored goes on
    const session = await this.ready(state, this.device);
    if (session === undefined) return;
    if (this.ran !== state.revision) await this.run(session, state);
    for (const read of [...this.reads.values()]) {
      await this.answer(session, read).catch((error) => this.failRead(read, error));
    }
    this.stage = undefined;
    if (this.state.connected.value) this.state.status.value = says.ready();
    else this.sayParted();
    if (this.unwanted) this.leave();
    else await this.sample(session, state, this.device);
    this.timing.soon();
  }

  /** Frees what nobody looks at; a view that comes all the same finds what is still in the page. */
  private leave(): void {
    this.dropSession();
    if (!this.state.connected.peek()) this.hold(new Set());
  }

  /** Answers the self-test when nothing else is to be done; what comes meanwhile goes first. */
  private async sample(session: Session, state: State, device: Device): Promise<void> {
    const { page, probe } = this;
    if (probe === undefined) return;
    const samples: Float32Array<ArrayBuffer>[] = [];
    try {
      for (const [k, key] of probe.keys.entries()) {
        await macrotask();
        if (this.reads.size > 0 || this.wanted !== state || this.closed) return;
        samples.push(await session.sample(key, probe.bands[k] ?? []));
      }
    } catch (error) {
      if (this.probe === probe) this.probe = undefined;
      if (this.session === session && !device.lost) warnOnce(`no self-test: ${error}`);
      return;
    }
    if (this.probe !== probe) return; // another one has come meanwhile
    this.probe = undefined;
    this.send({ type: "probed", page, revision: this.ran }, [joined(samples).buffer]);
  }

  /** Whether nobody looks at it, and Python has let it go or is gone. */
  private get unwanted(): boolean {
    return this.views === 0 && (this.released || !this.state.connected.peek());
  }

  /** A session that holds the Plan, weights and inputs of `state`. */
  private async ready(state: State, device: Device): Promise<Session | undefined> {
    if (this.plan !== state.plan) {
      this.dropSession();
      await this.make(state, device);
    }
    const { session } = this;
    if (session === undefined || this.closed) return undefined;
    for (const [index, hash] of state.weights.entries()) {
      const weight = session.plan.weights[index];
      if (weight === undefined || this.weights[index] === hash) continue;
      session.setWeight(weight.texture, this.floats(hash));
      this.ran = -1;
    }
    this.weights = state.weights;
    for (const [index, hash] of state.inputs.entries()) {
      const input = session.plan.inputs[index];
      if (input === undefined || this.inputs[index] === hash) continue;
      session.write(input.key, this.floats(hash));
      this.ran = -1;
    }
    this.inputs = state.inputs;
    return session;
  }

  private parse(state: State): { readonly plan: PlanHeader; readonly uniforms: Uint8Array } {
    const file = this.store.get(state.plan);
    if (file === undefined) throw new PlanError("the Plan is not here");
    return parseContainer(file);
  }

  private async make(state: State, device: Device): Promise<void> {
    const { plan, uniforms } = this.parse(state);
    if (
      plan.weights.length !== state.weights.length ||
      plan.inputs.length !== state.inputs.length
    ) {
      throw new PlanError("the Plan and its weights or inputs don't belong together");
    }
    const weights = plan.weights.map((weight, k) => ({ ...weight, hash: state.weights[k] ?? "" }));
    const header: PlanHeader = { ...plan, weights };
    const since = performance.now();
    const onProgress = ({ stage, done, total }: GlProgress) => {
      this.busy("compiling", done, total);
      if (stage !== "compile" || this.closed) return;
      const seconds = (performance.now() - since) / 1000;
      this.state.status.value = says.compiling(done, total, seconds);
    };
    const made = await createSession(
      device,
      header,
      uniforms,
      (hash) => this.floats(hash),
      onProgress,
    );
    if (this.closed) {
      made.dispose();
      return;
    }
    this.session = made;
    this.plan = state.plan;
    this.weights = state.weights;
    this.state.plan.value = header;
    this.state.session.value = made;
  }

  private async run(session: Session, state: State): Promise<void> {
    this.busy("running", 0, 1);
    if (session.sequence === 0) this.state.status.value = says.running();
    this.state.running.value = true;
    const run = await session
      .run({
        urgent: this.reads.size > 0,
        onProgress: ({ done, total }) => this.busy("running", done, total),
      })
      .finally(() => {
        this.state.running.value = false;
      });
    this.ran = state.revision;
    this.state.run.value = run;
    this.state.timed.value = null;
    this.tellRun(run, false);
    this.tellHealth();
  }

  private tellRun({ ms, clock, passes }: RunInfo, again: boolean): void {
    const { page, ran: revision } = this;
    this.send({ type: "ran", page, revision, ms, timing: clock, passes, again });
  }

  private async answer(session: Session, read: Read): Promise<void> {
    if (read.revision > this.ran) return; // its State is on the way
    const values: Float32Array<ArrayBuffer>[] = [];
    const answer = { revision: this.ran, values };
    for (const [k, key] of read.keys.entries()) {
      this.busy("reading", k, read.keys.length);
      const value = (await session.read(key)) as Float32Array<ArrayBuffer>;
      if (!this.reads.has(read.id)) return; // nobody waits any more
      // At once: while it is on its way, the next value is drawn.
      await this.reply(read.id, answer, partsOf(value, values.push(value) - 1));
    }
    const last = this.reads.get(read.id);
    if (last === undefined) return;
    this.reads.delete(read.id);
    const timer = setTimeout(() => this.forget(read.id), KEEP_MS);
    this.answers.set(read.id, { ...answer, timer });
    if (last !== read) this.queue(last);
  }

  private async reply(
    id: string,
    { revision, values }: Pick<Answer, "revision" | "values">,
    parts: readonly (readonly [number, number])[],
  ): Promise<void> {
    const { page } = this;
    let sent = 0;
    for (const [key, part] of parts) {
      const value = values[key];
      if (value === undefined || !(this.answers.has(id) || this.reads.has(id))) continue;
      const { buffer, byteOffset, byteLength: bytes } = value;
      // A copy: a view would be sent as the whole buffer under it.
      const from = byteOffset + part * CHUNK;
      const data = buffer.slice(from, Math.min(from + CHUNK, byteOffset + bytes));
      const count = Math.max(1, Math.ceil(bytes / CHUNK));
      this.send({ type: "reply", page, id, key, part, count, bytes, revision }, [data]);
      sent += data.byteLength;
      if (sent >= BREATHE_BYTES) {
        sent = 0;
        await macrotask();
      }
    }
  }

  private forget(id: string): void {
    clearTimeout(this.answers.get(id)?.timer);
    this.answers.delete(id);
  }

  /** For a page that cannot draw: what the network is, and Python's picture of it. */
  private showPoster(state: State): void {
    this.stage = undefined;
    this.state.plan.value ??= this.parse(state).plan;
    if (this.unsupported !== undefined) this.state.status.value = this.unsupported;
    const png = this.store.get(state.poster);
    if (png !== undefined) {
      if (this.state.poster.value !== null) URL.revokeObjectURL(this.state.poster.value);
      this.state.poster.value = URL.createObjectURL(new Blob([png], { type: "image/png" }));
    }
    if (!this.state.connected.peek()) this.sayParted();
  }

  private floats(hash: string): Float32Array {
    const data = this.store.get(hash);
    if (data === undefined) throw new PlanError(`the weights or input ${hash} are not here`);
    return new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
  }

  private dropSession(): void {
    this.state.session.value = null;
    this.session?.dispose();
    this.session = undefined;
    this.plan = "";
    this.weights = [];
    this.inputs = [];
    this.ran = -1;
    this.stage = undefined;
    if (!this.closed) this.tellHealth();
  }

  /** A read that cannot be answered fails alone: the network has run, and others go on. */
  private failRead(read: Read, error: unknown): void {
    const failure = this.failure(error);
    if (failure === undefined) throw error;
    this.reads.delete(read.id);
    this.send({ ...failure, id: read.id });
  }

  private stumble(error: unknown): void {
    this.stage = undefined;
    const failure = this.failure(error);
    if (failure !== undefined) this.fail(failure);
  }

  /** What a failed step means; nothing where the session ended or a lost context comes back. */
  private failure(error: unknown): Failure | undefined {
    if (this.closed) return undefined;
    // By name: another bundle's copy of these classes may have opened the device.
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    if (name === "SessionClosed") return undefined;
    if (name === "ContextLostError" || this.device?.lost) return undefined; // onRestored goes on
    const device = name === "ShaderError" || name === "PlanError";
    return this.failed(device ? "device" : "internal", message);
  }

  private failed(kind: Failed["kind"], text: string): Failure {
    return { type: "failed", page: this.page, kind, text: text.slice(0, 10_000) };
  }

  private fail(failure: Failure): void {
    this.state.status.value = says.failed("This network could not be run here", failure.text);
    this.send({ ...failure, id: "" });
    for (const id of this.reads.keys()) this.send({ ...failure, id });
    this.reads.clear();
  }
}

function partsOf(value: Float32Array, key: number): (readonly [number, number])[] {
  const count = Math.max(1, Math.ceil(value.byteLength / CHUNK));
  return Array.from({ length: count }, (_, part) => [key, part] as const);
}

/** Not crypto.randomUUID: pages served over plain http don't have it. */
function randomName(): string {
  const numbers = crypto.getRandomValues(new Uint32Array(4));
  return [...numbers].map((n) => n.toString(16).padStart(8, "0")).join("");
}
