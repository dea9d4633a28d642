// Submits the passes of a run, at once or in slices, and sees when the device has done them.

import { isPageHidden, type PassDraw } from "../plan/run_slices.ts";
import type { Progress } from "../plan/runtime.ts";
import type { Pass } from "../plan/schema.ts";
import type { GpuClock, MeasuredTime, TimingMark } from "./gpu_clock.ts";
import type { PlanObjects } from "./plan_objects.ts";

/** Slices that are submitted and not finished. */
const MAX_IN_FLIGHT = 2;

/** Reads what somebody waits for, behind the passes. */
export type ReadbackCallback = (objects: PlanObjects) => void;

export interface Submission {
  readonly objects: PlanObjects;
  readonly clock: GpuClock;
  /** Waits for what it reads: where a run is waited for anyway, it is called in place of that. */
  readonly readBack: ReadbackCallback | undefined;
  onProgress(progress: Progress): void;
  /** Throws when waiting has become useless. */
  check(): void;
  /** Somebody waits for the result. */
  isUrgent(): boolean;
  /** All is submitted in its order: who reads or draws after this sees the new values. */
  onSubmitted(): void;
}

/** Waits in place, for a run that is known to be short: no clock is better. */
export function submitAndWait(
  passes: readonly Pass[],
  { objects, readBack, onSubmitted }: Submission,
): MeasuredTime {
  const start = performance.now();
  for (const pass of passes) objects.draw(pass);
  const last = passes.at(-1);
  if (readBack !== undefined) readBack(objects);
  else if (last !== undefined) objects.read(last, 1, 1); // returns when all is done
  onSubmitted();
  return { ms: performance.now() - start, clock: "wall" };
}

export async function submitSlices(
  slices: readonly PassDraw[][],
  submission: Submission,
): Promise<MeasuredTime> {
  const { objects, clock, readBack, check } = submission;
  const single = slices.length === 1;
  const marks: TimingMark[] = [];
  let passed = 0;
  const pass = async (mark: TimingMark | undefined) => {
    // A single slice takes less than a frame or three: timers see its end sooner.
    if (mark !== undefined) await clock.waitFor(mark, () => single || submission.isUrgent(), check);
    passed += 1;
    submission.onProgress({ stage: "run", done: passed, total: slices.length });
  };
  try {
    for (const slice of slices) {
      // A hidden page has nothing to keep fluent, and its timers are slow.
      while (marks.length - passed >= MAX_IN_FLIGHT && !isPageHidden()) await pass(marks[passed]);
      check(); // what was waited for may have ended in the same moment as the session
      clock.begin();
      for (const { pass: step, band } of slice) objects.draw(step, band);
      marks.push(clock.end());
    }
    if (single) submission.onSubmitted();
    else if (readBack !== undefined) {
      // What is still in flight is short, and the read that somebody waits for is its end: no fence is as quick.
      check();
      submission.onSubmitted();
      readBack(objects);
      while (passed < marks.length) clock.discard(marks[passed++]);
    }
    while (passed < marks.length) await pass(marks[passed]);
  } finally {
    for (const mark of marks.slice(passed)) clock.discard(mark); // of a run that nobody waits for
  }
  const end = performance.now();
  if (!single && readBack === undefined) submission.onSubmitted();
  return clock.elapsed(marks, end, check);
}
