// How often a network runs, and how long a run takes: by a clock of the test's own.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { RunInfo, Session } from "../src/plan/runtime.ts";
import "./text_imports.ts";

mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
mock.method(performance, "now", () => Date.now());
Object.assign(globalThis, { document: { hidden: false } });
const { createSignals, lastRun } = await import("../src/engine/signals.ts");
const { watchRunRate: watchPace } = await import("../src/engine/run_rate.ts");
const { createRunTimer: createTiming } = await import("../src/engine/run_timing.ts");

const advanceTimers = async (ms: number): Promise<void> => {
  mock.timers.tick(ms);
  for (let k = 0; k < 20; k++) await Promise.resolve();
};
const makeRun = (sequence: number, more: Partial<RunInfo> = {}): RunInfo =>
  ({ sequence, ms: 100, clock: "fence", hasBuiltPipelines: false, ...more }) as RunInfo;

test("runs are counted that ended within the last second, and the end is reported", async () => {
  const signals = createSignals();
  const heard: [boolean, number][] = [];
  const stop = watchPace(signals, (...now) => heard.push(now));
  assert.deepEqual(heard, []);
  signals.isRunning.value = true;
  signals.run.value = makeRun(1);
  signals.isRunning.value = false;
  assert.deepEqual(heard.splice(0), [[true, 0]], "it has begun");
  await advanceTimers(250);
  assert.deepEqual(heard.splice(0), [[true, 1]]);
  await advanceTimers(250);
  signals.run.value = makeRun(2);
  await advanceTimers(250);
  assert.deepEqual(heard.splice(0), [[false, 1], [true, 2]]); // biome-ignore format: pairs
  await advanceTimers(250);
  assert.deepEqual(heard.splice(0), [[false, 1]], "the first ended a second ago");
  await advanceTimers(500);
  assert.deepEqual(heard.splice(0), [[false, 0]]);
  await advanceTimers(5000);
  assert.deepEqual(heard, []);
  stop();
});

/** A timing of a session whose runs take these milliseconds, one after the other. */
function createTimedRuns(...times: readonly number[]) {
  const signals = createSignals();
  const left = [...times];
  const asked: number[] = [];
  const heard: number[] = [];
  const now = { shown: true, busy: false };
  const session = {
    sequence: 1,
    measureRun: async (most: number) => {
      asked.push(most);
      const ms = left.shift();
      return ms === undefined ? undefined : makeRun(1, { ms });
    },
  };
  signals.session.value = session as unknown as Session;
  signals.run.value = makeRun(1);
  const timing = createTiming(signals, {
    hasViews: () => now.shown,
    isBusy: () => now.busy,
    onRunTimed: ({ ms }) => heard.push(ms),
  });
  return { signals, session, timing, asked, heard, now };
}

test("a run is timed half a second behind it, and again twice as long after each time, up to 16 seconds", async () => {
  const { signals, timing, asked, heard } = createTimedRuns(80, 40, 90, 60);
  timing.scheduleMeasurement();
  await advanceTimers(499);
  assert.deepEqual(asked, []);
  await advanceTimers(1);
  assert.deepEqual([asked.splice(0), heard.splice(0)], [[250], [80]]);
  await advanceTimers(999);
  assert.deepEqual(asked, []);
  await advanceTimers(1);
  assert.deepEqual(heard.splice(0), [40], "a shorter time");
  await advanceTimers(2000);
  assert.deepEqual(heard, [], "a longer one is other work");
  assert.equal(lastRun(signals)?.ms, 40);
  for (const ms of [4000, 8000, 16_000, 32_000, 64_000]) await advanceTimers(ms);
  assert.deepEqual(asked, [250, 250, 250, 250, 250]);
  timing.dispose();
});

test("once two times agree only a run that takes little is timed again", async () => {
  const { timing, asked } = createTimedRuns(100, 81, 100, 100);
  timing.scheduleMeasurement();
  for (const ms of [500, 1000, 2000, 4000]) await advanceTimers(ms);
  assert.deepEqual(asked, [250, 250, 50, 50]);
  timing.dispose();
});

test("a run that built pipelines may take a second, and one by the GPU's clock is not timed again", async () => {
  const built = createTimedRuns(80);
  built.signals.run.value = makeRun(1, { hasBuiltPipelines: true, clock: "gpu timer" });
  built.timing.scheduleMeasurement();
  await advanceTimers(500);
  assert.deepEqual(built.asked, [1000]);
  const exact = createTimedRuns(80);
  exact.signals.run.value = makeRun(1, { clock: "gpu timer" });
  exact.timing.scheduleMeasurement();
  await advanceTimers(5000);
  assert.deepEqual(exact.asked, []);
  for (const one of [built, exact]) one.timing.dispose();
});

test("nothing is timed while the page is busy, has no view, or another run has come", async () => {
  const { signals, session, timing, asked, heard, now } = createTimedRuns(80, 70);
  now.busy = true;
  timing.scheduleMeasurement();
  await advanceTimers(500);
  now.busy = false;
  assert.deepEqual(asked, []);
  session.sequence = 2;
  await advanceTimers(1000);
  assert.deepEqual(asked, []);
  session.sequence = 1;
  await advanceTimers(2000);
  assert.deepEqual([asked.length, heard], [1, [80]]);
  now.shown = false;
  await advanceTimers(100_000);
  now.shown = true;
  timing.scheduleMeasurement();
  await advanceTimers(500);
  assert.equal(asked.length, 2, "a view has come back");
  signals.run.value = makeRun(2);
  timing.dispose();
  await advanceTimers(100_000);
  assert.equal(asked.length, 2);
});
