// A page that follows a loop in Python: its curve, the weights that come from there, and earlier ones to look back at.
import { effect, untracked } from "@preact/signals";
import { whole } from "../../chunks.ts";
import type { Mirrored } from "../../messages.ts";
import type { ViewerState } from "../../state.ts";
import { nextStep, withOne } from "../training/checkpoints.ts";
import { Line } from "../training/loss_history.ts";
import type { Course, TrainingRecord } from "../training/records.ts";
import {
  type Checkpoint,
  NO_TRAINING,
  type TrainingActions,
  type TrainingHost,
  type WeightRows,
} from "../training/state.ts";
import { Watches } from "../training/watches.ts";

/** So often what is watched is read, and a state is kept, at most. */
const READ_MS = 250;
/** Numbers of all parameters; of more no pictures are kept with a state. */
const PICTURED = 2 ** 22;

interface Kept extends Omit<Checkpoint, "fits"> {
  /** All weights, and the Plan whose textures these are. */
  readonly rows: WeightRows;
  readonly plan: string;
}

export class Mirroring implements TrainingActions {
  readonly id: string;
  readonly round: number;
  private readonly state: ViewerState;
  private readonly host: TrainingHost;
  private readonly watches: Watches;
  private readonly unfollow: () => void;
  private record: TrainingRecord;
  private line = new Line();
  /** Of a state on its way. */
  private parts: Uint8Array<ArrayBuffer>[] = [];
  private losses = new Float32Array();
  /** The step that weights are behind. */
  private readonly steps = new WeakMap<WeightRows, number>();
  private kept: readonly Kept[] = [];
  private ids = 0;
  private readAt = Number.NEGATIVE_INFINITY;
  private reading: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(state: ViewerState, host: TrainingHost, record: TrainingRecord) {
    this.id = record.id;
    this.round = record.round;
    this.state = state;
    this.host = host;
    this.record = record;
    this.watches = new Watches(courseOf([], false));
    state.progress.value = NO_TRAINING;
    state.trainingActions.value = this;
    state.mirroring.value = (message, data) => this.take(message, data);
    this.say();
    this.catchUp();
    this.unfollow = effect(() => {
      state.run.value;
      state.session.value;
      untracked(() => this.soon());
    });
  }

  follow(record: TrainingRecord): void {
    if (record.state === this.record.state) return;
    this.record = record;
    this.say();
    this.soon();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.reading);
    this.unfollow();
    this.state.mirroring.value = null;
    this.state.earlier.value = null;
  }

  // What views ask

  watch(keys: readonly string[], take: (arrays: Float32Array[]) => void): () => void {
    return this.watches.add(keys, take, () => this.read(0));
  }

  look(id: number | null): void {
    const one = this.kept.find((kept) => kept.id === id && kept.plan === this.host.plan);
    this.state.earlier.value = one?.rows ?? null;
    this.say();
  }

  goBack(): void {
    // Only Python's own loop could.
  }

  // What Python says

  private take(message: Mirrored, data: Uint8Array<ArrayBuffer>): WeightRows | undefined {
    const { training, part, count, rows, step, textures } = message;
    if (part === 0) {
      this.parts = [];
      this.losses = new Float32Array(data.slice(0, 8 * rows).buffer);
    }
    if (training !== this.id || part !== this.parts.length) return undefined;
    this.parts.push(data.subarray(8 * rows));
    if (this.parts.length < count) return undefined;
    const all = new Float32Array(whole(this.parts).buffer);
    this.parts = [];
    const found = new Map(this.state.rows.peek());
    let at = 0;
    for (const texture of textures) {
      const length = this.sizeOf(texture);
      found.set(texture, all.subarray(at, at + length));
      at += length;
    }
    if (at !== all.length) return undefined; // of another Plan: Python offers it anew
    this.steps.set(found, step);
    this.learn(message);
    this.say();
    return found;
  }

  private sizeOf(texture: number): number {
    const size = this.state.plan.peek()?.textures[texture];
    return size === undefined ? 0 : size.width * size.height * size.layers * 4;
  }

  private learn({ first, held_out }: Mirrored): void {
    const { line, losses } = this;
    if (first > line.steps) {
      this.catchUp(); // this page has not seen what was before
      return;
    }
    line.cut(first);
    for (let k = 0; k < losses.length; k += 2)
      line.add(losses[k] ?? Number.NaN, losses[k + 1] ?? Number.NaN);
    for (const [step, loss, share] of held_out)
      line.heldOut.push([step, loss ?? Number.NaN, share]);
  }

  /** Asks for all that was told. */
  private catchUp(): void {
    this.host
      .blob(this.id)
      .then((bytes) => {
        const line = Line.of(bytes);
        if (this.closed || line.steps < this.line.steps) return;
        this.line = line;
        this.say();
      })
      .catch(() => undefined); // Python is gone, or busy: the next state asks again
  }

  // What is read of the weights that are shown

  private soon(): void {
    this.read(Math.max(0, this.readAt + READ_MS - performance.now()));
  }

  private read(ms: number): void {
    clearTimeout(this.reading);
    this.reading = setTimeout(() => {
      this.readAt = performance.now();
      this.readNow().catch(() => undefined); // a lost context, or another network: what follows is read anew
    }, ms);
  }

  private async readNow(): Promise<void> {
    const { host } = this;
    if (this.closed || host.plan === "") return;
    await host.use(async (session) => {
      const { rows } = host;
      const step = rows && this.steps.get(rows);
      // What is watched stays that of now.
      const isLooking = this.kept.some((one) => one.rows === rows);
      if (!isLooking) await this.watches.give(session, false);
      if (step === undefined || !this.isDue(step)) return;
      const weights = host.initial();
      const arrays = new Map<string, Float32Array>();
      const names = this.names;
      if (numbersOf(session.plan.parameters) <= PICTURED)
        for (const name of names) arrays.set(name, await session.read(name));
      this.ids += 1;
      const loss = this.line.losses[step - 1] ?? Number.NaN;
      const one = { id: this.ids, step, loss, branch: 0, arrays, predictions: NONE };
      const kept = { ...one, rows: weights, plan: host.plan };
      const chosen = this.state.checkpoint.peek();
      this.kept = withOne(this.kept, kept, bytesOf, ({ id }) => id === chosen);
    });
    this.say();
  }

  /** Ever sparser, and the last of all. */
  private isDue(step: number): boolean {
    const last = this.kept.at(-1)?.step;
    if (last === undefined) return true;
    return step >= nextStep(last) || (this.record.state === "stopped" && step > last);
  }

  private get names(): string[] {
    return (this.state.plan.peek()?.parameters ?? []).map(({ key }) => key);
  }

  private say(): void {
    if (this.closed) return;
    const { line, host, state } = this;
    const { progress, earlier } = state;
    const shown = earlier.peek();
    const before = progress.peek();
    const isRight = line.accuracies.some(Number.isFinite);
    const { names } = this;
    const isSame =
      before.course?.accuracy === isRight && before.course.trained.join() === names.join();
    progress.value = {
      ...before,
      ...line.curve(),
      phase: this.record.state === "stopped" ? "stopped" : "mirrored",
      course: isSame ? before.course : courseOf(names, isRight),
      step: line.steps,
      checkpoints: this.kept.map(({ rows, plan, ...one }) => ({
        ...one,
        fits: plan === host.plan && rows.size > 0,
      })),
      looking: this.kept.find(({ rows }) => rows === shown)?.id ?? null,
    };
  }
}

const NONE = new Float32Array();

/** What views know of a training, of one that Python's own loop does. */
const courseOf = (trained: readonly string[], accuracy: boolean): Course => ({
  plan: "",
  loss: "",
  optimizer: "",
  batch: 0,
  count: 0,
  held_out: 0,
  begin: 0,
  end: -1,
  shuffle: false,
  seed: 0,
  accuracy,
  rates: "",
  betas: [],
  columns: [],
  inputs: {},
  held_out_inputs: {},
  loss_key: "",
  held_out_key: "",
  prediction: "",
  ratios: "",
  dead: "",
  trained,
  flat: [],
  gradients: {},
  state: [],
  frozen: [],
});

const numbersOf = (parameters: readonly { readonly shape: readonly number[] }[]): number =>
  parameters.reduce(
    (sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1),
    0,
  );

const bytesOf = ({ rows, arrays }: Kept): number =>
  [...rows.values(), ...arrays.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
