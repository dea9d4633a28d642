// Host of a training loop in a notebook: the engine, blobs from Python, and reports of losses and weights to Python.
import { CHUNK, type StateChunk, type StepReport } from "../../messages.ts";
import type { PythonLink, ViewerHost } from "../feature.ts";
import { EngineTrainingHost } from "./engine_host.ts";
import type { TrainingHost } from "./state.ts";

export class NotebookTrainingHost extends EngineTrainingHost implements TrainingHost {
  readonly page: string;
  readonly canRecompile = true;
  readonly maxChunkBytes = CHUNK;
  readonly saveWeights = null;
  readonly blob: ViewerHost["blob"];
  private readonly python: PythonLink;

  constructor(
    { engine, page, blob }: Pick<ViewerHost, "engine" | "page" | "blob">,
    python: PythonLink,
  ) {
    super(engine);
    this.page = page;
    this.blob = blob;
    this.python = python;
  }

  get planHash(): string {
    return this.engine.loadedContent?.plan ?? "";
  }

  reportSteps(stepped: Omit<StepReport, "type" | "page">, rows: Float32Array<ArrayBuffer>): void {
    this.python.send({ type: "stepreport", page: this.page, ...stepped }, [rows.buffer]);
  }

  sendWeights(saved: Omit<StateChunk, "type" | "page">, part: ArrayBuffer): void {
    this.python.send({ type: "statechunk", page: this.page, ...saved }, [part]);
  }
}
