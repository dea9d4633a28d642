// Throttled status reports of a source to the views and to Python: not every picture, but always the last one.
import { batch } from "@preact/signals";
import type { ViewerState } from "../../state.ts";
import type { Feeder } from "./state.ts";
import { SOURCE_OFF } from "./state.ts";

/** Minimum intervals of reports to Python and of the rate in the status. */
const REPORT_INTERVAL_MS = 100;
const STATUS_INTERVAL_MS = 500;
const RATE_WINDOW_MS = 1000;

export function createStatusReporter({ sourceStatus }: ViewerState, feeder: Feeder) {
  let times: number[] = [];
  let told = Number.NEGATIVE_INFINITY;
  let said = Number.NEGATIVE_INFINITY;
  /** Whether Python still has to learn that the last picture is final. */
  let open = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const tell = (still: boolean): void => {
    clearTimeout(timer);
    open = !still;
    told = performance.now();
    feeder.reportFed(still, still ? 0 : times.length);
  };
  const say = (phase: "live" | "still"): void => {
    said = performance.now();
    const rate = phase === "live" ? times.length : 0;
    const now = sourceStatus.peek();
    if (now.phase === phase && now.rate === rate) return;
    sourceStatus.value = { ...SOURCE_OFF, phase, rate };
  };

  return {
    /** A picture was fed. */
    onFed(follows: boolean): void {
      const now = performance.now();
      times = [...times.filter((at) => now - at < RATE_WINDOW_MS), now];
      batch(() => {
        if (follows) {
          open = true;
          if (now - told >= REPORT_INTERVAL_MS) tell(false);
          if (sourceStatus.peek().phase !== "live" || now - said >= STATUS_INTERVAL_MS) say("live");
          return;
        }
        say("still");
        // Report only the last of many strokes or steps.
        open = true;
        clearTimeout(timer);
        timer = setTimeout(() => tell(true), Math.max(0, told + REPORT_INTERVAL_MS - now));
      });
    },
    /** No picture follows the last one. */
    markStill(): void {
      if (!open) return;
      say("still");
      tell(true);
    },
    dispose(): void {
      clearTimeout(timer);
    },
  };
}

export type StatusReporter = ReturnType<typeof createStatusReporter>;
