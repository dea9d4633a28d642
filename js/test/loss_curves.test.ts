// What is drawn of losses: means, few points of many, axes; and how parameters stand as tiles.
import assert from "node:assert/strict";
import test from "node:test";
import {
  axisPosition,
  axisScale,
  axisTicks,
  curveRange,
  decimate,
  nearestIndex,
  runningMean,
  smoothingWindow,
} from "../src/features/training/views/curve_math.ts";
import {
  fitTiles,
  maxTileValue,
  paintTiles,
  type Tiling,
} from "../src/features/training/views/tile_layout.ts";
import {
  batchSize,
  layersText,
  parameterGroups,
  trainableGroups,
} from "../src/features/training/views/training_text.ts";

const assertClose = (found: ArrayLike<number>, wanted: readonly number[]): void => {
  assert.equal(found.length, wanted.length);
  for (const [k, one] of wanted.entries()) {
    assert.ok(
      Math.abs((found[k] ?? Number.NaN) - one) <= 1e-12 * Math.abs(one) || Object.is(found[k], one),
      `${k}: ${found[k]}, not ${one}`,
    );
  }
};

/** Term by term. */
const plainMean = (values: readonly number[], window: number): number[] =>
  values.map((_, k) => {
    const all = values.slice(Math.max(0, k - window + 1), k + 1).filter(Number.isFinite);
    return all.length === 0 ? Number.NaN : all.reduce((sum, one) => sum + one, 0) / all.length;
  });

test("a running mean is that of the last numbers, at every length and window", () => {
  for (const length of [0, 1, 2, 7, 12, 30]) {
    const values = Array.from({ length }, (_, k) => Math.sin(k * k) + 2);
    for (const window of [1, 2, 3, 5, 12, 40]) {
      assertClose(runningMean(values, window), plainMean(values, window));
    }
  }
});

test("a spike leaves no trace behind the window, and what isn't finite isn't counted", () => {
  const values = [0.5, 1e30, 0.5, 0.25, Number.NaN, 0.25, Number.POSITIVE_INFINITY, 0.25];
  const means = runningMean(values, 3);
  assertClose(means.subarray(4), [0.375, 0.25, 0.25, 0.25]);
  assert.ok(Number.isNaN(runningMean([Number.NaN], 3)[0]));
});

test("the mean is of a hundredth of all steps", () => {
  assert.deepEqual([0, 1, 149, 150, 900, 100_000].map(smoothingWindow), [1, 1, 1, 2, 9, 1000]);
});

test("few points stay as they are, from the first step on", () => {
  assert.deepEqual(decimate([3, Number.NaN, 1], 10), { x: [1, 3], y: [3, 1] });
});

test("of many points the least and the greatest of each bin stay, in their order", () => {
  const values = Array.from({ length: 100_000 }, () => 1);
  values[40_000] = 9;
  values[40_001] = -9;
  values[99_999] = 5;
  const { x, y } = decimate(values, 500);
  assert.ok(x.length <= 1000);
  assert.deepEqual(
    x,
    x.toSorted((a, b) => a - b),
  );
  assert.equal(y[x.indexOf(40_001)], 9);
  assert.equal(y[x.indexOf(40_002)], -9);
  assert.equal(y[x.indexOf(100_000)], 5);
});

test("an axis holds all there is, by factors where that is above zero", () => {
  const above = axisScale(curveRange([{ x: [1, 2], y: [0.2, 0.01] }]));
  assert.ok(above.isLog && above.low < 0.01 && above.high > 0.2);
  assert.equal(axisPosition({ isLog: true, low: 0.01, high: 1 }, 0.1), 0.5);
  const below = axisScale(curveRange([{ x: [1, 2], y: [-1, 3] }]));
  assert.ok(!below.isLog && below.low < -1 && below.high > 3);
  const flat = axisScale({ low: 2, high: 2 });
  assert.ok(flat.low < 2 && flat.high > 2);
  assert.ok(axisScale(curveRange([])).isLog);
});

test("ticks are round numbers, no more than fit", () => {
  assert.deepEqual(
    axisTicks({ isLog: true, low: 0.009, high: 0.21 }, 6),
    [0.01, 0.02, 0.05, 0.1, 0.2],
  );
  assert.deepEqual(
    axisTicks({ isLog: true, low: 0.0005, high: 0.5 }, 7),
    [0.001, 0.003, 0.01, 0.03, 0.1, 0.3],
  );
  assert.deepEqual(
    axisTicks({ isLog: true, low: 1e-9, high: 2 }, 5),
    [1e-9, 1e-7, 1e-5, 1e-3, 0.1],
  );
  assert.deepEqual(axisTicks({ isLog: true, low: 0.31, high: 0.38 }, 5), [0.32, 0.34, 0.36, 0.38]);
  assert.deepEqual(axisTicks({ isLog: false, low: -0.03, high: 1.04 }, 4), [0, 0.5, 1]);
});

test("the nearest place", () => {
  assert.equal(nearestIndex([], 3), -1);
  assert.deepEqual(
    [-5, 4, 11, 99].map((to) => nearestIndex([0, 10, 20], to)),
    [0, 0, 1, 2],
  );
});

const makeTiling = (count: number, tileSize: number, columns: number): Tiling => ({
  starts: Array.from({ length: count }, (_, k) => k * tileSize),
  tileSize,
  columns,
  noun: "filters",
  note: "",
  describeTileElement: () => "",
});

test("tiles are as large as all of them fit, and else as many as fit", () => {
  for (const count of [1, 3, 32, 1000]) {
    for (const [size, columns] of [
      [9, 3],
      [16, 4],
      [7, 3],
      [1, 1],
    ] as const) {
      const {
        tileCount: shown,
        perRow,
        cellSize,
      } = fitTiles(makeTiling(count, size, columns), { width: 200, height: 100 }, 3, 2, 12);
      assert.ok(cellSize >= 2 && cellSize <= 12 && shown <= count);
      assert.ok(
        perRow * (columns * cellSize + 3) - 3 <= 200,
        `${count} ${size}: ${perRow} of ${cellSize}`,
      );
      const lines = Math.ceil(size / columns);
      assert.ok(Math.ceil(shown / perRow) * (lines * cellSize + 3) - 3 <= 100);
      if (cellSize > 2) assert.equal(shown, count);
    }
  }
});

test("a tile's colours say the sign, and what isn't finite has its own", () => {
  const values = Float32Array.of(1, -1, 0, Number.NaN, Number.POSITIVE_INFINITY, 0.5);
  const whole = makeTiling(1, 6, 3);
  const picture = { width: 8, height: 6, data: new Uint8ClampedArray(8 * 6 * 4) } as ImageData;
  const colors = (place: number) => [0, 0, Math.round(200 * place)] as const;
  paintTiles(picture, values, whole, { tileCount: 1, perRow: 1, cellSize: 2 }, 3, 1, colors);
  const at = (x: number, y: number) => [
    ...picture.data.subarray((y * 8 + x) * 4, (y * 8 + x) * 4 + 3),
  ];
  assert.deepEqual(
    [at(1, 1), at(3, 1), at(5, 1)],
    [
      [0, 0, 200],
      [0, 0, 0],
      [0, 0, 100],
    ],
  );
  assert.ok([at(1, 3), at(2, 3)].some(([r]) => r === 255 || r === 0));
  assert.deepEqual(at(3, 3), [255, 0, 255]);
  assert.deepEqual(at(0, 0), [0, 0, 0]);
  assert.equal(maxTileValue(values, whole), 1);
});

test("parameters belong to their layers, frozen ones too", () => {
  const course = {
    trained_parameters: ["a.0.weight", "a.0.bias", "scale"],
    frozen: ["b.weight"],
    batch_size: 8,
  };
  const groups = trainableGroups(course as never);
  assert.deepEqual(
    groups.map(({ name }) => name),
    ["a.0", "scale", "b"],
  );
  assert.deepEqual(parameterGroups(["a.0.weight", "a.0.bias"])[0]?.parameters, [
    "a.0.weight",
    "a.0.bias",
  ]);
  assert.equal(layersText(groups, []), "all layers");
  assert.equal(layersText(groups, ["b.weight"]), "2 of 3 layers");
  assert.equal(layersText(groups, ["a.0.bias"]), "all layers");
  assert.equal(batchSize(course as never, { batch_size: 0 } as never), 8);
  assert.equal(batchSize(course as never, { batch_size: 3 } as never), 3);
});
