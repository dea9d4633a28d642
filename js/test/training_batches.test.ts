// The batches of a training in the page: each epoch has all examples, each row is its own, and what a step is told.
import assert from "node:assert/strict";
import test from "node:test";
import {
  addNoise,
  batchExamples,
  columnRows,
  makeBatch,
  stepScalars,
} from "../src/features/training/batches.ts";
import type { Column, TrainingConfig } from "../src/features/training/records.ts";

const makeColumn = (key: string, more: Partial<Column> = {}): Column =>
  ({ key, dtype: "uint8", shape: [2], scale: 1 / 255, data: "", held_out: "", ...more }) as Column;

const trainingConfig = (more: Partial<TrainingConfig> = {}): TrainingConfig =>
  ({
    start_step: 0,
    example_count: 10,
    batch_size: 4,
    shuffle: true,
    seed: 3,
    betas: [0.9, 0.999],
    columns: [makeColumn("x")],
    inputs: { x: "input", target: "t", weights: "w" },
    ...more,
  }) as TrainingConfig;

const epochExamples = (of: TrainingConfig, first: number): number[] =>
  [0, 1, 2].flatMap((k) => batchExamples(of, first + k));
const sorted = (numbers: number[]): number[] => [...numbers].sort((a, b) => a - b);
const ALL_EXAMPLES = Array.from({ length: 10 }, (_, k) => k);

test("each epoch has each example once, in an order of its own", () => {
  const orders = [0, 3, 6].map((first) => epochExamples(trainingConfig(), first));
  for (const order of orders) assert.deepEqual(sorted(order), ALL_EXAMPLES);
  assert.equal(new Set(orders.map(String)).size, 3);
  assert.deepEqual(
    orders,
    [0, 3, 6].map((first) => epochExamples(trainingConfig(), first)),
  );
  assert.notDeepEqual(epochExamples(trainingConfig({ seed: 4 }), 0), orders[0]);
  assert.deepEqual(epochExamples(trainingConfig({ shuffle: false }), 3), ALL_EXAMPLES);
  assert.deepEqual(
    [0, 1, 2].map((step) => batchExamples(trainingConfig(), step).length),
    [4, 4, 2],
  );
});

test("from another config on epochs are counted anew", () => {
  // Of 10 examples 5 steps of 4 are an epoch and two thirds: the next config begins with a whole one.
  const next = trainingConfig({ start_step: 5, batch_size: 5 });
  assert.deepEqual(sorted([...batchExamples(next, 5), ...batchExamples(next, 6)]), ALL_EXAMPLES);
  assert.deepEqual(sorted([...batchExamples(next, 7), ...batchExamples(next, 8)]), ALL_EXAMPLES);
});

test("rows are scaled, and the last batch is filled by what does not count", () => {
  const rows = [
    columnRows(makeColumn("x"), Uint8Array.from([0, 51, 102, 153, 204, 255])),
    columnRows(
      makeColumn("target", { dtype: "float32", shape: [], scale: 1 }),
      // Not at a multiple of four bytes.
      new Uint8Array(
        new Uint8Array([0, ...new Uint8Array(Float32Array.of(7, 8, 9).buffer)]).buffer,
        1,
      ),
    ),
  ];
  const { exampleCount, inputs } = makeBatch(rows, [2, 0], 4, trainingConfig().inputs);
  assert.equal(exampleCount, 2);
  const found = [...(inputs.get("input") ?? [])].map((one) => Math.round(one * 100) / 100);
  assert.deepEqual(found, [0.8, 1, 0, 0.2, 0.8, 1, 0.8, 1]);
  assert.deepEqual([...(inputs.get("t") ?? [])], [9, 7, 9, 9]);
  assert.deepEqual([...(inputs.get("w") ?? [])], [1, 1, 0, 0]);
});

test("noise has its deviation, is another one in each step, and leaves targets alone", () => {
  const zeros = () => ({
    exampleCount: 4,
    inputs: new Map([
      ["input", new Float32Array(20_000)],
      ["t", new Float32Array(4)],
    ]),
  });
  const of = trainingConfig({ columns: [makeColumn("x"), makeColumn("target")] });
  const [one, other, none] = [zeros(), zeros(), zeros()];
  addNoise(one, of, 0.5, 1);
  addNoise(other, of, 0.5, 2);
  addNoise(none, of, 0, 1);
  const numbers = one.inputs.get("input") ?? [];
  const mean = [...numbers].reduce((sum, x) => sum + x, 0) / 20_000;
  const square = [...numbers].reduce((sum, x) => sum + x * x, 0) / 20_000;
  assert.ok(
    Math.abs(mean) < 0.02 && Math.abs(Math.sqrt(square) - 0.5) < 0.01,
    `${mean}, ${square}`,
  );
  assert.notDeepEqual(numbers, other.inputs.get("input"));
  for (const { inputs } of [one, other])
    assert.deepEqual([...(inputs.get("t") ?? [])], [0, 0, 0, 0]);
  assert.deepEqual(none, zeros());
});

test("a step of Adam is told its corrections, and what no Plan takes is left out", () => {
  const inputs = { lr: "lr", step_size: "a", root_correction: "b", seed: "s" };
  const first = stepScalars(trainingConfig({ inputs }), 0.01, 0);
  assert.ok(Math.abs((first.get("step_size") ?? 0) - 0.1) < 1e-12);
  assert.ok(Math.abs((first.get("root_correction") ?? 0) - 0.001 ** -0.5) < 1e-9);
  const third = stepScalars(trainingConfig({ inputs }), 0.01, 2);
  assert.ok(Math.abs((third.get("step_size") ?? 0) - 0.01 / (1 - 0.9 ** 3)) < 1e-12);
  assert.notEqual(first.get("seed"), third.get("seed"));
  assert.equal(Math.fround(third.get("seed") ?? 0.5), third.get("seed"));
  assert.equal(first.has("steps"), false);
});
