// The last run's time without what was built or done beside it, measured when the page has come to rest.

import { isPageHidden } from "../plan/run_slices.ts";
import type { RunInfo } from "../plan/runtime.ts";
import type { EngineSignals } from "./signals.ts";

/** So long after the last thing that was done a run is measured again, unless it takes longer than this. */
const IDLE_MS = 500;
const MAX_RUN_MS = 250;
/** The same where pipelines were built: that can have taken most of the time. */
const MAX_BUILD_RUN_MS = 1_000;
/** And again, each time twice as long after, up to this; once two times are about the same, only what takes little. */
const MAX_WAIT_MS = 16_000;
const MAX_RATIO = 1.25;
const CHEAP_RUN_MS = 50;

export interface RunTimer {
  /** Something was done: begins to measure when that was the last thing, unless it has begun with this run. */
  schedule(): void;
  dispose(): void;
}

interface RunTimerEvents {
  /** Whether there is a view; `schedule` is called when one comes. */
  hasViews(): boolean;
  isBusy(): boolean;
  onTimed(run: RunInfo): void;
}

/** Keeps `signals.timed`, and tells each shorter time. */
export function createRunTimer(signals: EngineSignals, place: RunTimerEvents): RunTimer {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let paused = false;
  let disposed = false;

  const after = (rest: number, agreed: boolean): void => {
    clearTimeout(timer);
    if (rest <= MAX_WAIT_MS && !disposed) timer = setTimeout(() => measure(rest, agreed), rest);
  };

  const measure = async (rested: number, agreed: boolean): Promise<void> => {
    const run = signals.run.peek();
    if (run === null || (run.clock === "gpu timer" && !run.hasBuiltPipelines)) return;
    paused = !place.hasViews();
    if (paused) return;
    if (isPageHidden()) {
      requestAnimationFrame(() => after(rested, agreed)); // it comes when somebody looks
      return;
    }
    const session = signals.session.peek();
    const most = agreed ? CHEAP_RUN_MS : run.hasBuiltPipelines ? MAX_BUILD_RUN_MS : MAX_RUN_MS;
    const isLast = session?.sequence === run.sequence && !place.isBusy();
    // A device that fails is told of by the next run.
    const timed = isLast ? await session.measureRun(most).catch(() => undefined) : undefined;
    if (run !== signals.run.peek()) return; // the new one is timed by itself
    const before = signals.timedRun.peek()?.ms ?? Number.POSITIVE_INFINITY;
    const now = timed?.ms ?? Number.POSITIVE_INFINITY;
    if (timed !== undefined && now < before) {
      signals.timedRun.value = timed;
      place.onTimed(timed);
    }
    // What else goes on in the machine makes times longer only: two that agree are likely to be the run's own.
    const agree = Math.max(now, before) < MAX_RATIO * Math.min(now, before);
    after(2 * rested, agreed || agree);
  };

  return {
    schedule() {
      if (signals.timedRun.peek() === null || paused) after(IDLE_MS, false);
      paused = false;
    },
    dispose() {
      disposed = true;
      clearTimeout(timer);
    },
  };
}
