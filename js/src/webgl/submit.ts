// Submits the passes of a run, at once or in slices, and sees when the device has done them.

import type { Progress } from "../plan/runtime.ts";
import { type Draw, hidden } from "../plan/schedule.ts";
import type { Pass } from "../plan/schema.ts";
import type { Clock, Mark, Measured } from "./clock.ts";
import type { PlanObjects } from "./objects.ts";

/** Slices that are submitted and not finished. */
const IN_FLIGHT = 2;

/** Reads what somebody waits for, behind the passes. */
export type Finish = (objects: PlanObjects) => void;

export interface Submission {
  readonly objects: PlanObjects;
  readonly clock: Clock;
  /** Waits for what it reads: where a run is waited for anyway, it is called in place of that. */
  readonly finish: Finish | undefined;
  onProgress(progress: Progress): void;
  /** Throws when waiting has become useless. */
  check(): void;
  /** Somebody waits for the result. */
  isUrgent(): boolean;
  /** All is submitted in its order: who reads or draws after this sees the new values. */
  done(): void;
}

/** Waits in place, for a run that is known to be short: no clock is better. */
export function runAtOnce(
  passes: readonly Pass[],
  { objects, finish, done }: Submission,
): Measured {
  const start = performance.now();
  for (const pass of passes) objects.draw(pass);
  const last = passes.at(-1);
  if (finish !== undefined) finish(objects);
  else if (last !== undefined) objects.read(last, 1, 1); // returns when all is done
  done();
  return { ms: performance.now() - start, clock: "wall" };
}

export async function inSlices(
  slices: readonly Draw[][],
  submission: Submission,
): Promise<Measured> {
  const { objects, clock, finish, check } = submission;
  const single = slices.length === 1;
  const marks: Mark[] = [];
  let passed = 0;
  const pass = async (mark: Mark | undefined) => {
    // A single slice takes less than a frame or three: timers see its end sooner.
    if (mark !== undefined) await clock.passed(mark, () => single || submission.isUrgent(), check);
    passed += 1;
    submission.onProgress({ stage: "run", done: passed, total: slices.length });
  };
  try {
    for (const slice of slices) {
      // A hidden page has nothing to keep fluent, and its timers are slow.
      while (marks.length - passed >= IN_FLIGHT && !hidden()) await pass(marks[passed]);
      check(); // what was waited for may have ended in the same moment as the session
      clock.begin();
      for (const { step, band } of slice) objects.draw(step, band);
      marks.push(clock.end());
    }
    if (single) submission.done();
    else if (finish !== undefined) {
      // What is still in flight is short, and the read that somebody waits for is its end: no fence is as quick.
      check();
      submission.done();
      finish(objects);
      while (passed < marks.length) clock.drop(marks[passed++]);
    }
    while (passed < marks.length) await pass(marks[passed]);
  } finally {
    for (const mark of marks.slice(passed)) clock.drop(mark); // of a run that nobody waits for
  }
  const end = performance.now();
  if (!single && finish === undefined) submission.done();
  return clock.total(marks, end, check);
}
