// The last run's time without what was built or done beside it, measured when the page has come to rest.

import type { RunInfo } from "../plan/runtime.ts";
import { hidden } from "../plan/schedule.ts";
import type { EngineSignals } from "./signals.ts";

/** So long after the last thing that was done a run is measured again, unless it takes longer than this. */
const REST_MS = 500;
const SHORT_MS = 250;
/** The same where pipelines were built: that can have taken most of the time. */
const LONG_MS = 1_000;
/** And again, each time twice as long after, up to this; once two times are about the same, only what takes little. */
const PATIENT_MS = 16_000;
const AGREE = 1.25;
const CHEAP_MS = 50;

export interface Timing {
  /** Something was done: begins to measure when that was the last thing, unless it has begun with this run. */
  soon(): void;
  dispose(): void;
}

interface Place {
  /** Whether there is a view; `soon` is called when one comes. */
  shown(): boolean;
  busy(): boolean;
  tell(run: RunInfo): void;
}

/** Keeps `signals.timed`, and tells each shorter time. */
export function createTiming(signals: EngineSignals, place: Place): Timing {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let paused = false;
  let disposed = false;

  const after = (rest: number, agreed: boolean): void => {
    clearTimeout(timer);
    if (rest <= PATIENT_MS && !disposed) timer = setTimeout(() => measure(rest, agreed), rest);
  };

  const measure = async (rested: number, agreed: boolean): Promise<void> => {
    const run = signals.run.peek();
    if (run === null || (run.clock === "gpu timer" && !run.builds)) return;
    paused = !place.shown();
    if (paused) return;
    if (hidden()) {
      requestAnimationFrame(() => after(rested, agreed)); // it comes when somebody looks
      return;
    }
    const session = signals.session.peek();
    const most = agreed ? CHEAP_MS : run.builds ? LONG_MS : SHORT_MS;
    const isLast = session?.sequence === run.sequence && !place.busy();
    // A device that fails is told of by the next run.
    const timed = isLast ? await session.time(most).catch(() => undefined) : undefined;
    if (run !== signals.run.peek()) return; // the new one is timed by itself
    const before = signals.timed.peek()?.ms ?? Number.POSITIVE_INFINITY;
    const now = timed?.ms ?? Number.POSITIVE_INFINITY;
    if (timed !== undefined && now < before) {
      signals.timed.value = timed;
      place.tell(timed);
    }
    // What else goes on in the machine makes times longer only: two that agree are likely to be the run's own.
    const agree = Math.max(now, before) < AGREE * Math.min(now, before);
    after(2 * rested, agreed || agree);
  };

  return {
    soon() {
      if (signals.timed.peek() === null || paused) after(REST_MS, false);
      paused = false;
    },
    dispose() {
      disposed = true;
      clearTimeout(timer);
    },
  };
}
