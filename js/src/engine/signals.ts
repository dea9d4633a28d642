// An engine's outputs as signals: the engine writes them, views read them.
import { type Signal, signal } from "@preact/signals";
import type { Capabilities, RunInfo, Session } from "../plan/runtime.ts";
import type { PlanHeader } from "../plan/schema.ts";

export interface EngineSignals {
  readonly plan: Signal<PlanHeader | null>;
  readonly session: Signal<Session | null>;
  /** The last run; views redraw when its `sequence` changes. */
  readonly run: Signal<RunInfo | null>;
  /** The last run timed again with nothing else on the device; null until it has been. */
  readonly remeasuredRun: Signal<RunInfo | null>;
  /** Whether a run is in flight. */
  readonly isRunning: Signal<boolean>;
  /** Runs that ended within the last second; 0 when idle. */
  readonly runsPerSecond: Signal<number>;
  readonly capabilities: Signal<Capabilities | null>;
}

export function createSignals(): EngineSignals {
  return {
    plan: signal(null),
    session: signal(null),
    run: signal(null),
    remeasuredRun: signal(null),
    isRunning: signal(false),
    runsPerSecond: signal(0),
    capabilities: signal(null),
  };
}

/** The last run with the shortest time known for it. */
export function lastRun({ run, remeasuredRun }: EngineSignals): RunInfo | null {
  return remeasuredRun.value ?? run.value;
}
