// What a training has of the engine, in a notebook and in an exported page.

import type { Engine, WeightRows } from "../../engine/types.ts";
import type { Session } from "../../plan/runtime.ts";

export abstract class EngineHost {
  protected readonly engine: Engine;

  constructor(engine: Engine) {
    this.engine = engine;
  }

  get losses(): number {
    return this.engine.losses;
  }

  get rows(): WeightRows | undefined {
    return this.engine.content?.rows;
  }

  get hasValues(): boolean {
    return this.engine.shown !== undefined;
  }

  initial(): WeightRows {
    return this.engine.initialState();
  }

  use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.engine.use(work);
  }

  refresh(): Promise<void> {
    return this.engine.refresh();
  }
}
