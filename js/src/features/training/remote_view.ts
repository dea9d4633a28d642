// A page where another one trains: its curve, and in all views the weights that Python was sent last.
import { effect } from "@preact/signals";
import type { ViewerState } from "../../state.ts";
import { seenBy } from "./dataset.ts";
import { Line } from "./loss_history.ts";
import type { TrainingRecord } from "./records.ts";
import { NO_TRAINING, type TrainingHost } from "./state.ts";
import { NOTHING_FAILED } from "./steps.ts";
import { courseOf } from "./training_config.ts";

/** So often it says that it sees the training: Python answers with what there is, and where the owner is gone, with that. */
const OFFER_MS = 2000;

export class Elsewhere {
  readonly id: string;
  readonly round: number;
  private readonly state: ViewerState;
  private readonly host: TrainingHost;
  private readonly record: TrainingRecord;
  private readonly asking: ReturnType<typeof setInterval>;
  private readonly unfollow: () => void;
  private shown = "";
  private closed = false;

  constructor(state: ViewerState, host: TrainingHost, record: TrainingRecord) {
    this.id = record.id;
    this.round = record.round;
    this.state = state;
    this.host = host;
    this.record = record;
    state.progress.value = { ...NO_TRAINING, phase: "elsewhere" };
    this.asking = setInterval(() => this.say(), OFFER_MS);
    this.say();
    this.unfollow = effect(() => {
      state.others.value;
      this.follow();
    });
  }

  close(): void {
    this.closed = true;
    clearInterval(this.asking);
    this.unfollow();
  }

  /** The Plan, or what is to be shown, may have come. */
  follow(): void {
    const { training, round, blob } = this.state.others.peek();
    const { training: record, progress } = this.state;
    if (record.peek()?.state === "stopped") {
      clearInterval(this.asking);
      progress.value = { ...progress.peek(), phase: "stopped" };
      return;
    }
    if (training !== this.id || round !== this.round || blob === this.shown) return;
    const before = this.shown;
    this.shown = blob;
    this.show(blob).catch(() => {
      if (this.shown === blob) this.shown = before; // with the next one again
    });
  }

  private say(): void {
    const told = { training: this.id, first: 0, held_out: [], message: "" };
    this.host.tell({ ...told, ...NOTHING_FAILED, elsewhere: true }, new Float32Array());
  }

  private async show(blob: string): Promise<void> {
    const { host, state } = this;
    const course = await courseOf((name) => host.blob(name), this.record);
    const bytes = await host.blob(blob);
    if (host.plan !== course.plan || !host.hasValues) throw new Error("the Plan is not here yet");
    const line = Line.of(bytes);
    const numbers = new Float32Array(bytes.slice().buffer);
    let at = Line.numbers(line);
    const initial = host.initial();
    await host.use(async (session) => {
      for (const [texture, { length }] of initial) {
        session.setWeight(texture, numbers.slice(at, at + length));
        at += length;
      }
    });
    if (this.closed) return;
    await host.refresh();
    const step = line.steps;
    const now = { phase: "elsewhere", course, step, examples: seenBy(course, step) } as const;
    state.progress.value = { ...NO_TRAINING, ...now, ...line.curve() };
  }
}
