// Access of a training loop to the engine, shared by notebooks and exported pages.

import type { Engine, WeightDataByTexture } from "../../engine/types.ts";
import type { Session } from "../../plan/runtime.ts";

export abstract class EngineTrainingHost {
  protected readonly engine: Engine;

  constructor(engine: Engine) {
    this.engine = engine;
  }

  get contextLossCount(): number {
    return this.engine.contextLosses;
  }

  get weightOverrides(): WeightDataByTexture | undefined {
    return this.engine.loadedContent?.weightOverrides;
  }

  get hasValues(): boolean {
    return this.engine.currentContent !== undefined;
  }

  initialWeights(): WeightDataByTexture {
    return this.engine.initialWeightData();
  }

  withSession<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.engine.withSession(work);
  }

  refresh(): Promise<void> {
    return this.engine.rerun();
  }
}
