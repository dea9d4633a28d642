// Host of a training loop in a notebook: the engine, blobs from Python, and reports of losses and weights to Python.
import { CHUNK_BYTES, type StateChunk, type StepReport } from "../../messages.ts";
import type { PythonLink, ViewerHost } from "../feature.ts";
import { EngineTrainingHost } from "./engine_host.ts";
import type { TrainingHost } from "./state.ts";

export class NotebookTrainingHost extends EngineTrainingHost implements TrainingHost {
  readonly pageId: string;
  readonly canRecompile = true;
  readonly maxChunkBytes = CHUNK_BYTES;
  readonly saveWeights = null;
  readonly blob: ViewerHost["blob"];
  private readonly python: PythonLink;

  constructor(
    { engine, pageId, blob }: Pick<ViewerHost, "engine" | "pageId" | "blob">,
    python: PythonLink,
  ) {
    super(engine);
    this.pageId = pageId;
    this.blob = blob;
    this.python = python;
  }

  get planHash(): string {
    return this.engine.loadedContent?.planHash ?? "";
  }

  reportSteps(
    report: Omit<StepReport, "type" | "page">,
    lossRows: Float32Array<ArrayBuffer>,
  ): void {
    this.python.send({ type: "stepreport", page: this.pageId, ...report }, [lossRows.buffer]);
  }

  sendWeights(chunkInfo: Omit<StateChunk, "type" | "page">, chunk: ArrayBuffer): void {
    this.python.send({ type: "statechunk", page: this.pageId, ...chunkInfo }, [chunk]);
  }
}
