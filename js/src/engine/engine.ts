// Runs a Plan in the page: device, session, Plan, weights, inputs, run loop and timing. It knows neither Python nor a view.
import { batch } from "@preact/signals";
import type { Edit } from "../plan/edits.ts";
import { parseContainer } from "../plan/format.ts";
import { needed } from "../plan/required_inputs.ts";
import {
  type Device,
  DeviceUnavailable,
  type Picture,
  PlanError,
  type Runtime,
  type Session,
  SessionClosed,
} from "../plan/runtime.ts";
import type { Input, PlanHeader } from "../plan/schema.ts";
import { WantedEdits } from "./edits.ts";
import { watchPace } from "./pace.ts";
import { type Twins, twinsOf } from "./samples.ts";
import { createSignals, type EngineSignals } from "./signals.ts";
import { pageStore } from "./store.ts";
import { createTiming, type Timing } from "./timing.ts";
import type { Content, Engine, EngineEvents, Fed, Showing, WeightRows } from "./types.ts";

/**
 * A network whose Plan changes keeps what is the same: the device, programs and weights that both Plans have. For that
 * the old session stays until the new one has run, and its pictures with it; unless it takes more bytes than this.
 */
const TOGETHER_BYTES = 2 ** 28;

export const createEngine = (runtime: Runtime, events: EngineEvents): Engine =>
  new PlanEngine(runtime, events);

class PlanEngine implements Engine {
  readonly signals: EngineSignals = createSignals();
  readonly device: Device | undefined;
  readonly unavailable: DeviceUnavailable | undefined;
  frame = 0;
  losses = 0;
  shown: Content | undefined;
  private readonly store = pageStore();
  private readonly runtime: Runtime;
  private readonly events: EngineEvents;
  private readonly undo: (() => void)[] = [];
  private readonly timing: Timing;
  private loaded: { readonly session: Session; content: Content; fed: Fed | null } | undefined;
  /** In the place of one of the Content's inputs. */
  private fed: Fed | null = null;
  /** What is wanted of any network. */
  private readonly edits: WantedEdits;
  /** A Plan whose programs are compiled before it is shown, and what undoes that. */
  private ahead: { readonly plan: string; readonly undo: Promise<() => void> } | undefined;
  private wanted: Content | undefined;
  private turn: Promise<void> = Promise.resolve();
  private urgent = false;
  /** What is asked for of the Plan; undefined for all of it. */
  private section: string | undefined;
  /** All sections have run, not only one. */
  private complete = true;
  /** What a run is under way of. */
  private active: Session | undefined;
  private watchers = 0;
  private closed = false;
  /** The twins of these inputs. */
  private paired:
    | { readonly inputs: readonly string[]; readonly twins: Twins | undefined }
    | undefined;

  constructor(runtime: Runtime, events: EngineEvents) {
    this.runtime = runtime;
    this.events = events;
    this.edits = new WantedEdits(this.store, (left) => events.onEdits?.(left));
    this.timing = createTiming(this.signals, {
      shown: () => this.watchers > 0,
      busy: () => events.isBusy(),
      tell: (run) => events.onTimed(run),
    });
    this.undo.push(
      watchPace(this.signals, (running, runsPerSecond) => {
        this.signals.runsPerSecond.value = runsPerSecond;
        events.onPace(running, runsPerSecond);
      }),
    );
    try {
      this.device = this.store.takeDevice(runtime);
    } catch (error) {
      if (!(error instanceof DeviceUnavailable)) throw error;
      this.unavailable = error;
    }
    if (this.device !== undefined) this.follow(this.device);
  }

  get content(): Content | undefined {
    return this.loaded?.content;
  }

  get bytes(): number {
    return this.loaded?.session.bytes ?? 0;
  }

  get views(): number {
    return this.watchers;
  }

  get fedInput(): string {
    const { loaded } = this;
    const input = loaded?.session.plan.inputs.find((one) => fits(loaded.fed, one));
    return input?.key ?? "";
  }

  get twins(): Twins | undefined {
    const { loaded } = this;
    if (loaded === undefined || this.fedInput !== "" || loaded.session.plan.batch < 2)
      return undefined;
    const { inputs } = loaded.content;
    if (this.paired?.inputs !== inputs) {
      const data = inputs.map((hash) => this.store.get(hash) ?? new Uint8Array());
      this.paired = { inputs, twins: twinsOf(loaded.session.plan, data) };
    }
    return this.paired.twins;
  }

  watch(): () => void {
    this.watchers += 1;
    this.timing.soon();
    let here = true;
    return () => {
      if (here) this.watchers -= 1;
      here = false;
    };
  }

  show(content: Content, { urgent = false, again = false, section }: Showing = {}): Promise<void> {
    this.wanted = content;
    this.urgent ||= urgent;
    this.section = section;
    if (again || section !== undefined || !this.complete) this.shown = undefined;
    const shown = this.turn.then(() => this.bring());
    this.turn = shown.catch(() => undefined);
    return shown;
  }

  async edit(edits: readonly Edit[]): Promise<void> {
    const failure = this.edits.want(edits);
    const brought = this.turn.then(() => this.bring());
    this.turn = brought.catch(() => undefined);
    await brought;
    failure();
  }

  async feed(fed: Fed | null): Promise<void> {
    this.fed = fed;
    const brought = this.turn.then(() => this.bring());
    this.turn = brought.catch(() => undefined);
    await brought;
  }

  commit(): void {
    this.ready().commit();
  }

  use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const done = this.turn.then(() => work(this.ready()));
    this.turn = done.then(
      () => undefined,
      () => undefined,
    );
    return done;
  }

  initialState(): WeightRows {
    const { loaded } = this;
    if (loaded === undefined) throw new SessionClosed("nothing is shown");
    const { plan } = loaded.session;
    const { rows, weights } = loaded.content;
    const changing = new Set(plan.carries.map(({ target }) => target));
    const found = new Map<number, Float32Array>();
    for (const [k, { texture }] of plan.weights.entries())
      if (changing.size === 0 || changing.has(texture))
        found.set(texture, rows?.get(texture) ?? this.floats(weights[k] ?? ""));
    return found;
  }

  refresh(): Promise<void> {
    return this.use(async (session) => {
      const run = await session.run();
      if (this.loaded?.session !== session) return;
      this.frame += 1;
      batch(() => {
        this.signals.run.value = run;
        this.signals.timed.value = null;
      });
    });
  }

  hurry(): void {
    this.active?.run({ urgent: true }).catch(() => undefined);
  }

  async read(key: string): Promise<Float32Array<ArrayBuffer>> {
    return (await this.ready().read(key)) as Float32Array<ArrayBuffer>;
  }

  async resamplePicture(input: Input, picture: Picture): Promise<Float32Array<ArrayBuffer>> {
    if (this.device === undefined) throw this.unavailable;
    return this.runtime.resamplePicture(this.device, input, picture);
  }

  async twin(): Promise<Session> {
    const { loaded, device } = this;
    if (loaded === undefined || device === undefined) throw new SessionClosed("nothing is shown");
    const { content, fed } = loaded;
    const { plan, uniforms } = this.weighed(content);
    // Its progress is nobody's news, and where there is no room for it what is shown stays.
    const weight = (hash: string) => this.floats(hash);
    const session = await this.runtime.createSession(
      device,
      plan,
      uniforms,
      weight,
      () => undefined,
    );
    this.put(session, content, fresh(content), fed, null);
    return session;
  }

  idle(): void {
    this.timing.soon();
  }

  describe(plan: string): void {
    this.signals.plan.value ??= this.parse(plan).plan;
  }

  prepare(plan: string): void {
    const { device } = this;
    const known = plan === this.loaded?.content.plan || plan === this.ahead?.plan;
    if (known || device === undefined || device.lost || this.store.get(plan) === undefined) return;
    this.forgetAhead();
    try {
      const { plan: header, uniforms } = this.parse(plan);
      const undo = this.runtime.compileAhead(device, header, uniforms);
      undo.catch(() => undefined);
      this.ahead = { plan, undo };
      this.signals.plan.value ??= header;
    } catch {
      this.ahead = { plan, undo: Promise.resolve(() => undefined) }; // it is not looked at again
    }
  }

  async prepared(): Promise<void> {
    await this.ahead?.undo.catch(() => undefined);
  }

  private forgetAhead(): void {
    this.ahead?.undo.then((undo) => undo()).catch(() => undefined);
    this.ahead = undefined;
  }

  release(): void {
    this.wanted = undefined;
    this.forgetAhead();
    this.drop();
  }

  dispose(): void {
    if (this.closed) return;
    this.closed = true;
    this.timing.dispose();
    for (const undo of this.undo) undo();
    this.release();
    this.edits.dispose();
    if (this.device !== undefined) this.store.giveBack();
  }

  private follow(device: Device): void {
    this.signals.capabilities.value = device.capabilities;
    this.undo.push(
      device.onLost(() => {
        this.losses += 1;
        this.shown = undefined;
        this.events.onLost();
      }),
      device.onRestored(() => {
        if (this.wanted !== undefined) this.show(this.wanted).catch(() => undefined); // told to who shows next
        this.events.onRestored();
      }),
    );
  }

  private ready(): Session {
    if (this.loaded === undefined) throw new SessionClosed("nothing is shown");
    return this.loaded.session;
  }

  private async bring(): Promise<void> {
    const { wanted: content, device } = this;
    if (content === undefined || device === undefined || device.lost || this.closed) return;
    const old = this.loaded;
    try {
      // What is fed stays, whatever else that input is said to be.
      const fedAt = old?.session.plan.inputs.findIndex((input) => fits(this.fed, input)) ?? -1;
      const isShown =
        this.shown !== undefined && isSame(this.shown, content, fedAt) && old?.fed === this.fed;
      if (isShown && (old === undefined || !(await this.edits.give(old.session, true)))) return;
      this.shown = undefined;
      if (old?.content.plan === content.plan) await this.update(old, content);
      else await this.exchange(content, device);
    } catch (error) {
      // What is left of the old network isn't what was asked for; a lost context brings back what was.
      if (old?.content.plan !== content.plan && !device.lost) this.drop();
      throw error;
    } finally {
      this.urgent = false;
    }
  }

  /** The same Plan with other weights or inputs. */
  private async update(loaded: NonNullable<typeof this.loaded>, content: Content): Promise<void> {
    await this.edits.give(loaded.session, true);
    const { fed } = this;
    this.put(loaded.session, content, loaded.content, fed, loaded.fed);
    Object.assign(loaded, { content, fed });
    await this.run(loaded.session, content);
  }

  /** Another Plan, in the place of what is loaded. */
  private async exchange(content: Content, device: Device): Promise<void> {
    const { plan: header, uniforms } = this.weighed(content);
    const bytes = content.weights.reduce(
      (sum, hash) => sum + (this.store.get(hash)?.length ?? 0),
      0,
    );
    if (this.bytes + bytes > TOGETHER_BYTES) this.drop();
    // What was compiled ahead is the session's from here on.
    const session = await this.make(header, uniforms, device).finally(() => this.forgetAhead());
    const old = this.loaded?.session;
    const first = old === undefined;
    const { fed } = this;
    const settle = () => {
      this.loaded = { session, content, fed };
      this.signals.plan.value = header;
      this.signals.session.value = session;
    };
    try {
      this.put(session, content, fresh(content), fed, null);
      await this.edits.give(session, false);
      if (first) batch(settle);
      await this.run(session, content, first ? undefined : settle);
    } catch (error) {
      if (this.loaded?.session !== session) session.dispose();
      throw error;
    }
    if (old !== undefined) old.dispose();
  }

  /** A Plan with the weights that are wanted of it. */
  private weighed(content: Content): { readonly plan: PlanHeader; readonly uniforms: Uint8Array } {
    const { plan, uniforms } = this.parse(content.plan);
    // Contributed inputs come last; features write them.
    const inputs = plan.inputs.filter(({ contributed }) => !contributed).length;
    if (plan.weights.length !== content.weights.length || inputs !== content.inputs.length) {
      throw new PlanError("the Plan and its weights or inputs don't belong together");
    }
    const weights = plan.weights.map((one, k) => ({ ...one, hash: content.weights[k] ?? "" }));
    return { plan: { ...plan, weights }, uniforms };
  }

  private async make(header: PlanHeader, uniforms: Uint8Array, device: Device): Promise<Session> {
    const open = () =>
      this.runtime.createSession(
        device,
        header,
        uniforms,
        (hash) => this.floats(hash),
        this.events.onProgress,
      );
    let session: Session;
    try {
      session = await open();
    } catch (error) {
      // There may be room for it alone.
      const isFull = error instanceof Error && error.name === "PlanError" && this.bytes > 0;
      if (!isFull || device.lost) throw error;
      this.drop();
      session = await open();
    }
    if (this.wanted !== undefined) return session;
    session.dispose(); // nobody wants it any more
    throw new SessionClosed("the engine was released");
  }

  /** Writes the weights and inputs that differ from what the session has. */
  private put(
    session: Session,
    content: Content,
    had: Content,
    fed: Fed | null,
    hadFed: Fed | null,
  ): void {
    const patches = content.patches ?? [];
    const old = had.patches ?? [];
    const kept = old.every((patch, k) => patches[k] === patch);
    const stale = new Set(kept ? [] : old.map(({ texture }) => texture));
    const written = new Set<number>();
    for (const [index, hash] of content.weights.entries()) {
      const texture = session.plan.weights[index]?.texture;
      if (texture === undefined) continue;
      const own = content.rows?.get(texture);
      const isSame = had.weights[index] === hash && had.rows?.get(texture) === own;
      if (isSame && !stale.has(texture)) continue;
      session.setWeight(texture, own ?? this.floats(hash), own ? undefined : hash);
      written.add(texture);
    }
    for (const [k, patch] of patches.entries()) {
      if (!kept || k >= old.length || written.has(patch.texture)) session.patchWeight(patch);
    }
    if (had.inputs.length === 0) {
      for (const { key, shape, contributed } of needed(session.plan)) {
        if (contributed) session.write(key, new Float32Array(shape.reduce((a, b) => a * b, 1)));
      }
    }
    for (const [index, hash] of content.inputs.entries()) {
      const input = session.plan.inputs[index];
      if (input === undefined) continue;
      if (fits(fed, input)) {
        // A picture may come later, as a camera's first one.
        if (had.inputs[index] === undefined) session.write(input.key, this.floats(hash));
        if (fed !== hadFed) give(session, fed);
      } else if (had.inputs[index] !== hash || fits(hadFed, input)) {
        session.write(input.key, this.floats(hash));
      }
    }
  }

  private async run(session: Session, content: Content, settle?: () => void): Promise<void> {
    const { onProgress } = this.events;
    onProgress({ stage: "run", done: 0, total: 1 });
    this.active = session;
    this.signals.running.value = true;
    const { section, urgent } = this;
    const options = { urgent, onProgress, ...(section === undefined ? {} : { section }) };
    const run = await session.run(options).finally(() => {
      this.signals.running.value = false;
      this.active = undefined;
    });
    if (this.wanted === undefined) throw new SessionClosed("the engine was released");
    this.frame += 1;
    this.shown = content;
    this.complete = section === undefined;
    batch(() => {
      settle?.();
      this.signals.run.value = run;
      this.signals.timed.value = null;
    });
  }

  private parse(plan: string): { readonly plan: PlanHeader; readonly uniforms: Uint8Array } {
    const file = this.store.get(plan);
    if (file === undefined) throw new PlanError("the Plan is not here");
    return parseContainer(file);
  }

  private floats(hash: string): Float32Array {
    const data = this.store.get(hash);
    if (data === undefined) throw new PlanError(`the weights or input ${hash} are not here`);
    return new Float32Array(data.buffer, data.byteOffset, data.byteLength / 4);
  }

  private drop(): void {
    this.shown = undefined;
    this.signals.session.value = null;
    this.loaded?.session.dispose();
    this.loaded = undefined;
  }
}

/** What a session has of it that was just made. */
const fresh = (content: Content): Content => ({
  ...content,
  inputs: [],
  patches: [],
  rows: undefined,
});

function fits(fed: Fed | null, { key, shape, fit }: PlanHeader["inputs"][number]): fed is Fed {
  if (fed?.key !== key) return false;
  if (fed.data === undefined) return fit !== "";
  return fed.data.length === shape.reduce((product, size) => product * size, 1);
}

function give(session: Session, { key, data, picture, mirrored = false }: Fed): void {
  if (data !== undefined) session.write(key, data);
  else if (picture !== undefined) session.feed(key, picture, mirrored);
}

const isSame = (a: Content, b: Content, besides: number): boolean =>
  a.plan === b.plan &&
  a.weights.join() === b.weights.join() &&
  a.inputs.every((hash, k) => k === besides || hash === b.inputs[k]) &&
  a.rows === b.rows &&
  a.patches?.length === b.patches?.length &&
  (a.patches ?? []).every((patch, k) => b.patches?.[k] === patch);
