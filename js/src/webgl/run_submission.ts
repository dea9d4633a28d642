// Submits the passes of a run, at once or in slices, and detects when the GPU has finished them.

import { isPageHidden, type PassDraw } from "../plan/run_slices.ts";
import type { Progress } from "../plan/runtime.ts";
import type { Pass } from "../plan/schema.ts";
import type { GpuClock, MeasuredTime, TimingMark } from "./gpu_clock.ts";
import type { PlanObjects } from "./plan_objects.ts";

/** The most slices submitted but not finished. */
const MAX_SLICES_IN_FLIGHT = 2;

/** Reads a result back after the passes, for a waiting caller. */
export type ReadbackCallback = (objects: PlanObjects) => void;

export interface Submission {
  readonly objects: PlanObjects;
  readonly clock: GpuClock;
  /** Blocks until its data is read: if the run is waited for synchronously anyway, this replaces the wait. */
  readonly readBack: ReadbackCallback | undefined;
  onProgress(progress: Progress): void;
  /** Throws if the wait is no longer needed. */
  throwIfCancelled(): void;
  /** Whether a caller waits for the result. */
  isUrgent(): boolean;
  /** Called when everything is submitted in order: later reads and draws see the new values. */
  onSubmitted(): void;
}

/** Submit and wait synchronously, for a run that is known to be short: that is the most accurate clock. */
export function submitAndWait(
  passes: readonly Pass[],
  { objects, readBack, onSubmitted }: Submission,
): MeasuredTime {
  const start = performance.now();
  for (const pass of passes) objects.draw(pass);
  const last = passes.at(-1);
  if (readBack !== undefined) readBack(objects);
  else if (last !== undefined) objects.read(last, 1, 1); // returns when the GPU is done
  onSubmitted();
  return { ms: performance.now() - start, clock: "wall" };
}

export async function submitSlices(
  slices: readonly PassDraw[][],
  submission: Submission,
): Promise<MeasuredTime> {
  const { objects, clock, readBack, throwIfCancelled } = submission;
  const single = slices.length === 1;
  const marks: TimingMark[] = [];
  let passed = 0;
  const pass = async (mark: TimingMark | undefined) => {
    // A single slice takes at most about three frames: polling by timers sees its end sooner.
    if (mark !== undefined)
      await clock.waitFor(mark, () => single || submission.isUrgent(), throwIfCancelled);
    passed += 1;
    submission.onProgress({ stage: "run", done: passed, total: slices.length });
  };
  try {
    for (const slice of slices) {
      // A hidden page needs no smooth frames, and its timers are slow.
      while (marks.length - passed >= MAX_SLICES_IN_FLIGHT && !isPageHidden())
        await pass(marks[passed]);
      throwIfCancelled(); // the session may have closed at the same moment as the wait ended
      clock.begin();
      for (const { pass: step, band } of slice) objects.draw(step, band);
      marks.push(clock.end());
    }
    if (single) submission.onSubmitted();
    else if (readBack !== undefined) {
      // The work in flight is short and the caller's read waits for its end, which is faster than any fence.
      throwIfCancelled();
      submission.onSubmitted();
      readBack(objects);
      while (passed < marks.length) clock.discard(marks[passed++]);
    }
    while (passed < marks.length) await pass(marks[passed]);
  } finally {
    for (const mark of marks.slice(passed)) clock.discard(mark); // of an abandoned run
  }
  const end = performance.now();
  if (!single && readBack === undefined) submission.onSubmitted();
  return clock.elapsed(marks, end, throwIfCancelled);
}
