// Timing of the last run without pipeline builds or concurrent work, measured when the page is idle.

import { isPageHidden } from "../plan/run_slices.ts";
import type { RunInfo } from "../plan/runtime.ts";
import type { EngineSignals } from "./signals.ts";

/** Delay after the last activity before a run is measured again; skipped if the run takes longer than MAX_RUN_MS. */
const IDLE_MS = 500;
const MAX_RUN_MS = 250;
/** The limit if pipelines were built, as the build may account for most of the time. */
const MAX_BUILDING_RUN_MS = 1_000;
/**
 * Repeat with doubled delays up to this one; once two times agree, repeat only runs that take less than CHEAP_RUN_MS.
 */
const MAX_REPEAT_DELAY_MS = 16_000;
const MAX_AGREEING_RATIO = 1.25;
const CHEAP_RUN_MS = 50;

export interface RunTimer {
  /** Report activity: schedule a measurement, unless this run's measurement has begun. */
  scheduleMeasurement(): void;
  dispose(): void;
}

interface RunTimerEvents {
  /** Whether a view is mounted; `scheduleMeasurement` is called when one is. */
  hasViews(): boolean;
  isBusy(): boolean;
  onRunTimed(run: RunInfo): void;
}

/** Maintain `signals.remeasuredRun` and report each shorter time. */
export function createRunTimer(signals: EngineSignals, events: RunTimerEvents): RunTimer {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let paused = false;
  let disposed = false;

  const after = (delayMs: number, isStable: boolean): void => {
    clearTimeout(timer);
    if (delayMs <= MAX_REPEAT_DELAY_MS && !disposed)
      timer = setTimeout(() => measure(delayMs, isStable), delayMs);
  };

  const measure = async (rested: number, isStable: boolean): Promise<void> => {
    const run = signals.run.peek();
    if (run === null || (run.clock === "gpu timer" && !run.hasBuiltPipelines)) return;
    paused = !events.hasViews();
    if (paused) return;
    if (isPageHidden()) {
      requestAnimationFrame(() => after(rested, isStable)); // runs once the page is visible
      return;
    }
    const session = signals.session.peek();
    const maxRunMs = isStable
      ? CHEAP_RUN_MS
      : run.hasBuiltPipelines
        ? MAX_BUILDING_RUN_MS
        : MAX_RUN_MS;
    const isLast = session?.sequence === run.sequence && !events.isBusy();
    // A device failure is reported by the next run.
    const timed = isLast ? await session.measureRun(maxRunMs).catch(() => undefined) : undefined;
    if (run !== signals.run.peek()) return; // the new run is timed separately
    const before = signals.remeasuredRun.peek()?.ms ?? Number.POSITIVE_INFINITY;
    const now = timed?.ms ?? Number.POSITIVE_INFINITY;
    if (timed !== undefined && now < before) {
      signals.remeasuredRun.value = timed;
      events.onRunTimed(timed);
    }
    // Other load on the machine only lengthens times: two that agree are likely to be the run's own.
    const agree = Math.max(now, before) < MAX_AGREEING_RATIO * Math.min(now, before);
    after(2 * rested, isStable || agree);
  };

  return {
    scheduleMeasurement() {
      if (signals.remeasuredRun.peek() === null || paused) after(IDLE_MS, false);
      paused = false;
    },
    dispose() {
      disposed = true;
      clearTimeout(timer);
    },
  };
}
