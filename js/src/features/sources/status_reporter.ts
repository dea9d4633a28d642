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
  let lastReportAt = Number.NEGATIVE_INFINITY;
  let lastStatusAt = Number.NEGATIVE_INFINITY;
  /** Whether Python still has to learn that the last picture is final. */
  let isFinalUnreported = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const reportToPython = (still: boolean): void => {
    clearTimeout(timer);
    isFinalUnreported = !still;
    lastReportAt = performance.now();
    feeder.reportFedInput(still, still ? 0 : times.length);
  };
  const setStatus = (phase: "live" | "still"): void => {
    lastStatusAt = performance.now();
    const picturesPerSecond = phase === "live" ? times.length : 0;
    const now = sourceStatus.peek();
    if (now.phase === phase && now.picturesPerSecond === picturesPerSecond) return;
    sourceStatus.value = { ...SOURCE_OFF, phase, picturesPerSecond };
  };

  return {
    /** A picture was fed. */
    onFed(follows: boolean): void {
      const now = performance.now();
      times = [...times.filter((at) => now - at < RATE_WINDOW_MS), now];
      batch(() => {
        if (follows) {
          isFinalUnreported = true;
          if (now - lastReportAt >= REPORT_INTERVAL_MS) reportToPython(false);
          if (sourceStatus.peek().phase !== "live" || now - lastStatusAt >= STATUS_INTERVAL_MS)
            setStatus("live");
          return;
        }
        setStatus("still");
        // Report only the last of many strokes or steps.
        isFinalUnreported = true;
        clearTimeout(timer);
        timer = setTimeout(
          () => reportToPython(true),
          Math.max(0, lastReportAt + REPORT_INTERVAL_MS - now),
        );
      });
    },
    /** No picture follows the last one. */
    markStill(): void {
      if (!isFinalUnreported) return;
      setStatus("still");
      reportToPython(true);
    },
    dispose(): void {
      clearTimeout(timer);
    },
  };
}

export type StatusReporter = ReturnType<typeof createStatusReporter>;
