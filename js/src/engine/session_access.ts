// The parts of an engine that a feature uses between two runs: its session, its weights, another run.
import type { Session } from "../plan/runtime.ts";
import type { Engine, WeightRows } from "./types.ts";

export abstract class SessionAccess {
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
