// What a training is given in a notebook: the engine, blobs of Python, and a way to tell it losses and weights.

import { SessionAccess } from "../engine/session_access.ts";
import type { Engine } from "../engine/types.ts";
import type { TrainingHost } from "../features/training/state.ts";
import { CHUNK, type FromPage, type Saved, type Stepped } from "../messages.ts";

export interface TrainerEvents {
  send(message: FromPage, buffers: ArrayBuffer[]): void;
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
}

export class CommTrainer extends SessionAccess implements TrainingHost {
  readonly page: string;
  readonly compiles = true;
  readonly chunk = CHUNK;
  readonly saveWeights = null;
  private readonly events: TrainerEvents;

  constructor(page: string, engine: Engine, events: TrainerEvents) {
    super(engine);
    this.page = page;
    this.events = events;
  }

  get plan(): string {
    return this.engine.content?.plan ?? "";
  }

  blob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.events.blob(name);
  }

  tell(stepped: Omit<Stepped, "type" | "page">, rows: Float32Array<ArrayBuffer>): void {
    this.events.send({ type: "stepped", page: this.page, ...stepped }, [rows.buffer]);
  }

  save(saved: Omit<Saved, "type" | "page">, part: ArrayBuffer): void {
    this.events.send({ type: "saved", page: this.page, ...saved }, [part]);
  }
}
