// How runs are cut: all texels once, short work together, long work apart.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type PassDraw,
  predictPassTimes,
  Semaphore,
  type SliceBudget,
  SMOOTH_SLICE_BUDGET,
  splitPass,
  splitRun,
  URGENT_SLICE_BUDGET,
} from "../src/plan/run_slices.ts";
import type { Pass } from "../src/plan/schema.ts";

function makePass(program: number, viewport: [number, number], cost = 1): Pass {
  return {
    program,
    inputs: [],
    output: 0,
    uniforms: 0,
    viewport,
    layer: -1,
    cost,
    input_values: [],
  };
}

const neverStop = () => false;

function countTexels(
  draws: readonly PassDraw[],
  [width, height]: readonly [number, number],
): number[] {
  const times = new Array(width * height).fill(0);
  for (const { band = [0, 0, width, height] } of draws) {
    const [x, y, w, h] = band;
    assert.ok(band.every(Number.isInteger));
    for (let row = y; row < y + h; row++) {
      for (let column = x; column < x + w; column++) times[row * width + column] += 1;
    }
  }
  return times;
}

test("bands cover each texel exactly once, along the longer side", () => {
  for (const viewport of [
    [7, 30],
    [30, 7],
    [1, 1],
    [5, 5],
    [64, 1],
    [1000, 3],
  ] as [number, number][]) {
    for (const count of [1, 2, 3, 7, 30, 1000]) {
      const draws = splitPass(makePass(0, viewport), count);
      assert.ok(draws.length <= Math.max(...viewport));
      assert.ok(countTexels(draws, viewport).every((times) => times === 1));
    }
  }
});

test("bands are whole squares of the renderer, two of them where there are enough", () => {
  const cuts = (width: number, count: number) =>
    splitPass(makePass(0, [width, 8]), count).map(({ band }) => band?.[2]);
  assert.deepEqual(cuts(1024, 6), [128, 128, 128, 128, 128, 128, 128, 128]);
  assert.deepEqual(cuts(1000, 3), [256, 256, 256, 232]);
  assert.deepEqual(cuts(448, 6), [64, 64, 64, 64, 64, 64, 64]);
  assert.deepEqual(cuts(100, 3), [33, 33, 34]); // shorter rather than whole: nobody is to wait
});

test("a short run is one slice, also of many passes", () => {
  const passes = Array.from({ length: 40 }, () => makePass(0, [9, 9]));
  for (const pace of [SMOOTH_SLICE_BUDGET, URGENT_SLICE_BUDGET]) {
    assert.equal(
      splitRun(passes, predictPassTimes(passes, pace.maxUnslicedMs * 0.9), neverStop, pace).length,
      1,
    );
    assert.ok(
      splitRun(passes, predictPassTimes(passes, pace.maxUnslicedMs * 1.2), neverStop, pace).length >
        1,
    );
  }
});

test("a long run keeps its order, and no slice is much longer than asked", () => {
  for (const pace of [SMOOTH_SLICE_BUDGET, URGENT_SLICE_BUDGET]) checkSlices(pace);
});

function checkSlices(budget: SliceBudget): void {
  const passes = Array.from({ length: 12 }, (_, k) => makePass(k, [64, 20], k + 1));
  const ms = predictPassTimes(passes, 900);
  const slices = splitRun(passes, ms, neverStop, budget);
  const order = slices.flat().map(({ pass: step }) => step.program);
  assert.deepEqual(
    order,
    [...order].sort((a, b) => a - b),
  );
  for (const [k, one] of passes.entries()) {
    const draws = slices.flat().filter(({ pass: step }) => step === one);
    assert.ok(countTexels(draws, one.viewport).every((times) => times === 1));
    assert.equal(draws.length, Math.ceil((ms[k] ?? 0) / budget.sliceMs));
  }
  for (const slice of slices) {
    const sum = slice.reduce((total, { pass: step, band }) => {
      const share = band === undefined ? 1 : (band[2] * band[3]) / (64 * 20);
      return total + share * (ms[step.program] ?? 0);
    }, 0);
    assert.ok(sum <= budget.sliceMs * 1.2, `${sum} ms`);
  }
}

test("a pass whose program draws for the first time stands alone", () => {
  const passes = [
    makePass(0, [4, 4]),
    makePass(1, [4, 4]),
    makePass(1, [4, 4]),
    makePass(1, [4, 4]),
  ];
  const slices = splitRun(
    passes,
    predictPassTimes(passes, 1),
    (one) => one.program < 2,
    SMOOTH_SLICE_BUDGET,
  );
  assert.deepEqual(
    slices.map((slice) => slice.length),
    [1, 1, 2], // the second pass of program 1 builds nothing
  );
});

test("a Plan without costs is taken to be even", () => {
  const passes = [makePass(0, [4, 4], 0), makePass(0, [4, 4], 0)];
  assert.deepEqual(predictPassTimes(passes, 10), [5, 5]);
  assert.deepEqual(predictPassTimes([], 10), []);
});

test("large work goes in turn, small work together, and a failure holds nobody up", async () => {
  const turns = new Semaphore(2 ** 20);
  const said: string[] = [];
  const ends = new Map<string, (failed: boolean) => void>();
  const begin = (name: string, size: number) =>
    turns.run(size, () => {
      said.push(name);
      return new Promise<void>((done, no) => {
        ends.set(name, (failed) => (failed ? no(new Error(name)) : done()));
      });
    });
  const work = [
    begin("alone", 2 ** 23),
    begin("second", 2 ** 20),
    ...Array.from({ length: 4 }, (_, k) => begin(`small ${k}`, 2 ** 18)),
    begin("last", 1),
  ];
  const settled = Promise.allSettled(work);
  const soon = () => new Promise((done) => setTimeout(done));
  const end = async (name: string, failed = false) => {
    const from = said.length;
    ends.get(name)?.(failed);
    await soon();
    return said.slice(from);
  };
  await soon();
  assert.deepEqual(said, ["alone"]);
  assert.deepEqual(await end("alone", true), ["second"]);
  assert.deepEqual(await end("second"), ["small 0", "small 1", "small 2", "small 3"]);
  assert.deepEqual(await end("small 2"), ["last"]);
  for (const name of ["small 0", "small 1", "small 3", "last"]) await end(name);
  const results = (await settled).map(({ status }) => status === "fulfilled");
  assert.deepEqual(results, [false, true, true, true, true, true, true]);
});
