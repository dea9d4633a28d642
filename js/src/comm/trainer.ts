// What a training is given in a notebook: the engine, blobs of Python, and a way to tell it losses and weights.
import type { Content, Engine } from "../engine/engine.ts";
import type { Session } from "../gl/types.ts";
import { CHUNK, type FromPage, type Saved, type Stepped } from "../messages.ts";
import type { TrainingHost } from "../state/training.ts";

export interface TrainerEvents {
  send(message: FromPage, buffers: ArrayBuffer[]): void;
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
}

export class CommTrainer implements TrainingHost {
  readonly page: string;
  private readonly engine: Engine;
  readonly compiles = true;
  readonly saveWeights = null;
  private readonly events: TrainerEvents;

  constructor(page: string, engine: Engine, events: TrainerEvents) {
    this.page = page;
    this.engine = engine;
    this.events = events;
  }

  get plan(): string {
    return this.content?.plan ?? "";
  }

  get losses(): number {
    return this.engine.losses;
  }

  initial(): ReadonlyMap<number, Float32Array> {
    return this.engine.initialState();
  }

  use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.engine.use(work);
  }

  refresh(): Promise<void> {
    return this.engine.refresh();
  }

  blob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.events.blob(name);
  }

  tell(stepped: Omit<Stepped, "type" | "page">, rows: Float32Array<ArrayBuffer>): void {
    this.events.send({ type: "stepped", page: this.page, ...stepped }, [rows.buffer]);
  }

  save(
    saved: Pick<Saved, "training" | "step" | "last" | "handing">,
    state: Float32Array<ArrayBuffer>,
  ): void {
    const { buffer, byteLength: bytes } = state;
    const count = Math.max(1, Math.ceil(bytes / CHUNK));
    for (let part = 0; part < count; part++) {
      const data = buffer.slice(part * CHUNK, Math.min((part + 1) * CHUNK, bytes));
      const { page } = this;
      this.events.send({ type: "saved", page, ...saved, part, count, bytes }, [data]);
    }
  }

  private get content(): Content | undefined {
    return this.engine.shown;
  }
}
