// Times each layer by repeating its passes alone, with the best clock that this browser has.

import {
  predictPassTimes,
  SMOOTH_SLICE_BUDGET,
  splitRun,
  waitForPoll,
} from "../plan/run_slices.ts";
import type { LayerTime, RunInfo } from "../plan/runtime.ts";
import type { Pass } from "../plan/schema.ts";
import type { GpuClock, MeasuredTime, TimingMark } from "./gpu_clock.ts";
import type { PlanObjects } from "./plan_objects.ts";
import type { Runner } from "./runner.ts";

/**
 * A layer is repeated until a sample takes this long, so that the timing overhead is small. Longer samples would be
 * worse: other load on the machine falls between short samples but inside long ones, and the layers would then add up
 * to more than a run.
 */
const MIN_SAMPLE_MS = 3;
const MAX_REPEATS = 64;
/** The number of samples; the shortest counts, since other load on the machine only adds time. */
const SAMPLE_COUNT = 3;
/** The number of samples with the wall clock, which includes all other load. */
const WALL_CLOCK_SAMPLE_COUNT = 8;
/** If layers add up to more than a run, they were disturbed: layers and run are measured again, up to this often. */
const MAX_ROUNDS = 4;

/** Time all layers, one after the other: see Session. */
export async function profileLayers(
  runner: Runner,
  onLayer: (layer: number, time: LayerTime) => void,
  signal: AbortSignal,
): Promise<RunInfo> {
  // The first run may build pipelines; the second may wait for work that the first has left.
  let run = await runner.run({ urgent: true, keepState: true });
  const again = async (afresh: boolean): Promise<void> => {
    const next = await runner.run({ urgent: true, keepState: true });
    run = !afresh && run.ms < next.ms ? { ...next, ms: run.ms } : next;
  };
  for (let k = 0; k < 3 && !signal.aborted; k++) await again(k === 0);
  const layers = [...runner.plan.layers.keys(), -1];
  const times = new Map<number, LayerTime>();
  const sum = (): number => [...times.values()].reduce((total, { ms }) => total + ms, 0);
  for (let round = 0; round === 0 || (round < MAX_ROUNDS && sum() > run.ms); round++) {
    for (const layer of layers) {
      if (signal.aborted) return run;
      const before = times.get(layer);
      // For a layer too long for one frame, one sample is enough.
      if (
        before !== undefined &&
        (before.passes === 0 || before.ms > SMOOTH_SLICE_BUDGET.maxUnslicedMs)
      )
        continue;
      const time = await timeLayer(runner, layer, run.ms);
      if (before === undefined || time.ms < before.ms) {
        times.set(layer, time);
        onLayer(layer, time);
      }
      await waitForPoll(true);
    }
    if (sum() > run.ms) await again(false);
  }
  return run;
}

/** Time the passes of one layer after a run, without edits; layer -1 has the passes of no layer and of all edits. */
async function timeLayer(runner: Runner, layer: number, runMs: number): Promise<LayerTime> {
  const all = runner.passes;
  const expected = predictPassTimes(all, runMs);
  const passes = all.filter((pass) => pass.layer === layer);
  const ms = all.reduce((s, pass, k) => s + (pass.layer === layer ? (expected[k] ?? 0) : 0), 0);
  if (passes.length === 0) return { ms: 0, clock: "wall", passes: 0, repeats: 0 };
  const found = await runner.runExclusive(async (objects, clock) => {
    const check = () => {
      runner.requireObjects();
    };
    if (ms > SMOOTH_SLICE_BUDGET.maxUnslicedMs)
      return { ...(await timeInSlices(objects, clock, passes, ms, check)), repeats: 1 };
    if (clock.hasTimer) return timeByQuery(objects, clock, passes, ms, check);
    return timeByWallClock(objects, passes, check);
  });
  return { ...found, passes: passes.length };
}

type RepeatedTime = MeasuredTime & Pick<LayerTime, "repeats">;

/** Repeat the passes as often as needed, inside one GPU timer query. */
async function timeByQuery(
  objects: PlanObjects,
  clock: GpuClock,
  passes: readonly Pass[],
  expectedMs: number,
  throwIfCancelled: () => void,
): Promise<RepeatedTime> {
  const repeats = Math.min(MAX_REPEATS, Math.max(4, Math.ceil(MIN_SAMPLE_MS / expectedMs)));
  let best: MeasuredTime | undefined;
  for (let k = 0; k < SAMPLE_COUNT; k++) {
    clock.begin();
    for (let n = 0; n < repeats; n++) for (const pass of passes) objects.draw(pass);
    const mark = clock.end();
    await clock.waitFor(mark, () => true, throwIfCancelled);
    const all = await clock.elapsed([mark], performance.now(), throwIfCancelled);
    if (best === undefined || all.ms < best.ms) best = all;
  }
  return { clock: best?.clock ?? "gpu timer", ms: (best?.ms ?? 0) / repeats, repeats };
}

/** Reading one pixel back shows to the microsecond when all work is done, but blocks the page for a frame. */
async function timeByWallClock(
  objects: PlanObjects,
  passes: readonly Pass[],
  throwIfCancelled: () => void,
): Promise<RepeatedTime> {
  const last = passes.at(-1);
  const once = (repeats: number): number => {
    const start = performance.now();
    for (let k = 0; k < repeats; k++) for (const pass of passes) objects.draw(pass);
    if (last !== undefined) objects.read(last, 1, 1);
    return performance.now() - start;
  };
  const best = async (repeats: number, tries: number): Promise<number> => {
    let least = Number.POSITIVE_INFINITY;
    for (let k = 0; k < tries; k++) {
      await waitForPoll(true); // let the page run between two blocking samples
      throwIfCancelled(); // the session may have been closed meanwhile
      least = Math.min(least, once(repeats));
    }
    return least;
  };
  const empty = await best(0, SAMPLE_COUNT); // the cost of waiting
  let repeats = 1;
  let ms = await best(1, SAMPLE_COUNT);
  while (ms - empty < MIN_SAMPLE_MS && repeats < MAX_REPEATS) {
    const each = Math.max(ms - empty, 0.1) / repeats;
    repeats = Math.min(MAX_REPEATS, Math.max(repeats + 1, Math.ceil((MIN_SAMPLE_MS * 1.2) / each)));
    ms = await best(repeats, 1);
  }
  ms = Math.min(ms, await best(repeats, WALL_CLOCK_SAMPLE_COUNT - 1));
  return { ms: Math.max(0, ms - empty) / repeats, clock: "wall", repeats };
}

/** A layer too long for one frame is split into slices, as in a run. */
async function timeInSlices(
  objects: PlanObjects,
  clock: GpuClock,
  passes: readonly Pass[],
  expectedMs: number,
  throwIfCancelled: () => void,
): Promise<MeasuredTime> {
  const marks: TimingMark[] = [];
  for (const slice of splitRun(
    passes,
    predictPassTimes(passes, expectedMs),
    () => false,
    SMOOTH_SLICE_BUDGET,
  )) {
    clock.begin();
    for (const { pass, band } of slice) objects.draw(pass, band);
    const mark = clock.end();
    marks.push(mark);
    await clock.waitFor(mark, () => true, throwIfCancelled);
  }
  return clock.elapsed(marks, performance.now(), throwIfCancelled);
}
