// What a training has in a notebook: the engine, blobs of Python, and a way to tell it losses and weights.
import { CHUNK, type Saved, type Stepped } from "../../messages.ts";
import type { Host, Python } from "../feature.ts";
import { EngineHost } from "./engine_host.ts";
import type { TrainingHost } from "./state.ts";

export class NotebookHost extends EngineHost implements TrainingHost {
  readonly page: string;
  readonly compiles = true;
  readonly chunk = CHUNK;
  readonly saveWeights = null;
  readonly blob: Host["blob"];
  private readonly python: Python;

  constructor({ engine, page, blob }: Pick<Host, "engine" | "page" | "blob">, python: Python) {
    super(engine);
    this.page = page;
    this.blob = blob;
    this.python = python;
  }

  get plan(): string {
    return this.engine.content?.plan ?? "";
  }

  tell(stepped: Omit<Stepped, "type" | "page">, rows: Float32Array<ArrayBuffer>): void {
    this.python.send({ type: "stepped", page: this.page, ...stepped }, [rows.buffer]);
  }

  save(saved: Omit<Saved, "type" | "page">, part: ArrayBuffer): void {
    this.python.send({ type: "saved", page: this.page, ...saved }, [part]);
  }
}
