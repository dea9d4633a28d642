// A training in the page: the examples that views watch, the learning rate of a step, and what is watched.
import assert from "node:assert/strict";
import test from "node:test";
import { columnRows } from "../src/features/training/batches.ts";
import {
  addCheckpoint,
  checkpointBytes,
  nextCheckpointStep,
} from "../src/features/training/checkpoints.ts";
import { countExamplesSeen, fetchDataset, learningRate } from "../src/features/training/dataset.ts";
import { selectFixedExamples } from "../src/features/training/fixed_examples.ts";
import type { Column, TrainingConfig, TrainingRecord } from "../src/features/training/records.ts";
import type { Checkpoint, TrainingHost } from "../src/features/training/state.ts";
import { TensorWatchers } from "../src/features/training/tensor_watchers.ts";
import { TrainingHistory } from "../src/features/training/training_history.ts";
import { type LoopEvents, TrainingLoop } from "../src/features/training/training_loop.ts";
import type { Session } from "../src/plan/runtime.ts";
import type { PlanHeader } from "../src/plan/schema.ts";

const makeColumn = (key: string, more: Partial<Column> = {}): Column =>
  ({ key, dtype: "uint8", shape: [2], scale: 1 / 255, blob: "", held_out: "", ...more }) as Column;
const TARGET_COLUMN = makeColumn("target", { dtype: "float32", shape: [], scale: 1 });
const trainingConfig = (more: Partial<TrainingConfig> = {}): TrainingConfig =>
  ({
    start_step: 0,
    example_count: 10,
    batch_size: 8,
    held_out_count: 0,
    has_accuracy: true,
    learning_rates: "",
    prediction_key: "out",
    columns: [makeColumn("x"), TARGET_COLUMN],
    inputs: { x: "input", target: "t", weights: "w" },
    held_out_inputs: { x: "held x", target: "held t" },
    gradients: { w: "gradient of w" },
    ...more,
  }) as TrainingConfig;
const plan = (shape: readonly number[]): PlanHeader =>
  ({ values: [{ key: "out", shape }] }) as unknown as PlanHeader;

const floatBytes = (numbers: readonly number[]): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Float32Array.from(numbers).buffer);
/** Bytes 10 k and 10 k + 5 of example k, and these labels. */
const exampleRows = (labels: readonly number[], first = 0) => [
  columnRows(
    makeColumn("x"),
    Uint8Array.from(labels.flatMap((_, k) => [first + 10 * k, first + 10 * k + 5])),
  ),
  columnRows(TARGET_COLUMN, floatBytes(labels)),
];
const TEN_LABELS = Array.from({ length: 10 }, () => 0);

test("watched examples of bytes are scaled as those that are learned from", () => {
  const fixed = selectFixedExamples(
    plan([8, 3]),
    trainingConfig(),
    exampleRows([4, 4, 4, 5, ...TEN_LABELS.slice(4)]),
    [],
  );
  assert.deepEqual(fixed?.examples.targets, Float32Array.of(4, 4, 4, 5, 0, 0));
  const expected = [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55].map((byte) => byte / 255);
  assert.deepEqual(fixed?.examples.inputs, Float32Array.from(expected));
  assert.equal(fixed?.outputLength, 18);
  assert.equal(fixed?.examples.isHeldOut, false);
  const fed = fixed?.inputs.get("held x");
  assert.deepEqual(fed?.slice(0, 12), Float32Array.from(expected));
  assert.equal(fed?.length, 16, "a whole batch is run");
});

test("at most six are watched, no more than a batch, the data or the output has", () => {
  const count = (more: Partial<TrainingConfig>, out = [8, 3]) =>
    selectFixedExamples(
      plan(out),
      trainingConfig({ has_accuracy: false, ...more }),
      exampleRows(TEN_LABELS),
      [],
    )?.examples.count;
  assert.equal(count({}), 6);
  assert.equal(count({ batch_size: 6 }), 6);
  assert.equal(count({ batch_size: 5 }), 5);
  assert.equal(count({ example_count: 2 }), 2);
  assert.equal(count({}, [1, 3]), 1);
  assert.equal(count({ prediction_key: "another" }), undefined);
  assert.equal(count({}, []), undefined);
});

test("watched examples are of different classes first, and of what is held out where there is some", () => {
  const labels = [7, 7, 7, 7, 2, 7, 7, 3, 7, 7];
  const own = selectFixedExamples(plan([8, 9]), trainingConfig(), exampleRows(labels), []);
  assert.deepEqual(own?.examples.targets, Float32Array.of(7, 7, 7, 7, 2, 3));
  const held = selectFixedExamples(
    plan([8, 9]),
    trainingConfig({ held_out_count: 3 }),
    exampleRows(labels),
    exampleRows([1, 0, 1], 100),
  );
  assert.equal(held?.examples.isHeldOut, true);
  assert.deepEqual(held?.examples.targets, Float32Array.of(1, 0, 1));
  const bytes = [100, 105, 110, 115, 120, 125].map((byte) => byte / 255);
  assert.deepEqual(held?.examples.inputs, Float32Array.from(bytes));
  const pictures = selectFixedExamples(
    plan([8, 9]),
    trainingConfig({ has_accuracy: false }),
    exampleRows(labels),
    [],
  );
  assert.deepEqual(pictures?.examples.targets, Float32Array.of(7, 7, 7, 7, 2, 7), "no classes");
});

test("a step's learning rate is that of its place behind the begin, the last one from there on", () => {
  const given = (rates: readonly number[] | undefined, start_step = 0) => ({
    config: trainingConfig({ start_step }),
    trainRows: [],
    heldOutRows: [],
    learningRates: rates && Float32Array.from(rates),
  });
  assert.equal(learningRate(given(undefined), 0.25, 9), 0.25);
  const rates = [1, 2, 4];
  assert.deepEqual(
    [-1, 0, 1, 2, 3].map((step) => learningRate(given(rates), 0.25, step)),
    [1, 1, 2, 4, 4],
  );
  assert.deepEqual(
    [9, 10, 12, 13].map((step) => learningRate(given(rates, 10), 0.25, step)),
    [1, 1, 4, 4],
  );
});

test("the examples seen count the short batch at an epoch's end", () => {
  const of = trainingConfig({ example_count: 10, batch_size: 4 });
  assert.deepEqual([0, 1, 2, 3, 4, 6].map((steps) => countExamplesSeen(of, steps)), [0, 4, 8, 10, 14, 20]); // biome-ignore format: pairs
});

test("each blob of a training is fetched once, and what is held out only where there is some", async () => {
  const asked: string[] = [];
  const host = {
    blob: async (name: string) => {
      asked.push(name);
      return floatBytes([1, 2, 3, 4]);
    },
  } as unknown as TrainingHost;
  const columns = [
    makeColumn("x", { dtype: "float32", blob: "same", held_out: "held" }),
    makeColumn("target", { dtype: "float32", shape: [], blob: "same", held_out: "held" }),
  ];
  const none = await fetchDataset(host, trainingConfig({ columns }));
  assert.deepEqual(
    [asked.splice(0), none.heldOutRows, none.learningRates],
    [["same"], [], undefined],
  );
  const all = await fetchDataset(
    host,
    trainingConfig({ columns, held_out_count: 2, learning_rates: "rates" }),
  );
  assert.deepEqual(asked, ["same", "held", "rates"]);
  assert.equal(all.heldOutRows.length, 2);
  assert.deepEqual(all.learningRates, Float32Array.of(1, 2, 3, 4));
});

/** A session that gives each key a number: how often anything was read of it. */
function createTrainingSession() {
  let reads = 0;
  const one = {
    read: async (key: string) => {
      reads += 1;
      return Float32Array.of(key === "w" ? reads : -reads);
    },
    value: (key: string) => (key === "gradient of w" ? { shape: [3] } : undefined),
  };
  return one as typeof one & Session;
}

test("what is watched is read for each watch, and no longer once it ends", async () => {
  const watches = new TensorWatchers(trainingConfig());
  const given: (readonly [string, number[]])[] = [];
  const watch = (name: string, ...keys: string[]) =>
    watches.add(
      keys,
      (arrays) => given.push([name, arrays.flatMap((array) => [...array])]),
      () => given.push([name, []]),
    );
  const end = watch("a", "w", "gradient of w");
  assert.deepEqual(given.splice(0), [["a", []]]);
  const one = createTrainingSession();
  await watches.notify(one, false);
  assert.deepEqual(given.splice(0), [["a", [1, 0, 0, 0]]], "before a step a gradient is 0");
  await watches.captureGradients(one);
  await watches.notify(one, true);
  assert.deepEqual(given.splice(0), [["a", [3, -2]]], "a step's own gradient");
  watch("b", "gradient of w");
  given.length = 0;
  watches.clear();
  await watches.notify(one, false);
  assert.deepEqual(given.splice(0), [["a", [4, 0, 0, 0]], ["b", [0, 0, 0]]]); // biome-ignore format: pairs
  end();
  await watches.notify(one, true);
  assert.deepEqual(given, [["b", [-5]]]);
});

const checkpointAt = (step: number, branchNumber = 0) => ({ step, branchNumber }) as Checkpoint;

test("twelve checkpoints of a curve stay, and 256 MiB of all, but always the first and the last", () => {
  const until = (count: number, bytes = 1) => {
    let kept: Checkpoint[] = [];
    for (let k = 0; k < count; k++)
      kept = addCheckpoint(
        kept,
        checkpointAt(2 ** k),
        () => bytes,
        () => false,
      );
    return kept.map(({ step }) => step);
  };
  assert.equal(until(12).length, 12);
  assert.equal(until(13).length, 12);
  assert.deepEqual(until(4, 2 ** 26), [1, 2, 4, 8]);
  assert.equal(until(4, 2 ** 26 + 1).length, 3);
  assert.deepEqual(until(9, 2 ** 30), [1, 2 ** 8]);
});

test("a checkpoint of another curve does not make room, and keeps its place", () => {
  const others = Array.from({ length: 12 }, (_, k) => checkpointAt(k, 1));
  const found = addCheckpoint(
    [...others, checkpointAt(0), checkpointAt(9)],
    checkpointAt(20),
    () => 1,
    () => false,
  );
  assert.equal(found.length, 15);
  assert.deepEqual(
    addCheckpoint(
      [checkpointAt(5), checkpointAt(9, 1), checkpointAt(9)],
      checkpointAt(9),
      () => 1,
      () => false,
    ).map(({ step }) => step),
    [5, 9, 9],
  );
});

test("the next checkpoint is due five steps later, or behind 1.6 times as many", () => {
  assert.deepEqual([0, 1, 5, 8, 9, 10, 100].map(nextCheckpointStep), [5, 6, 10, 13, 15, 16, 160]);
});

test("a checkpoint's bytes are those of its tensors, arrays and predictions", () => {
  const layout = {} as never;
  const kept = {
    parameterArrays: new Map([["w", new Float32Array(3)]]),
    tensors: new Map([
      ["w", { textureRows: new Float32Array(4), layout }],
      ["m", { textureRows: new Float32Array(8), layout }],
    ]),
    predictions: new Float32Array(5),
  };
  assert.equal(checkpointBytes(kept as never), 80);
});

test("six branches stay, and a seventh takes the place of the first", () => {
  const history = new TrainingHistory();
  const add = (step: number) =>
    history.add(
      {
        step,
        examplesSeen: 0,
        loss: 0,
        parameterArrays: new Map(),
        predictions: new Float32Array(),
        tensors: new Map(),
      },
      null,
    );
  add(0);
  for (let k = 1; k <= 7; k++) {
    history.lossHistory.add(k, Number.NaN);
    add(1);
    const first = history.checkpoints.find(
      ({ branchNumber, step }) => branchNumber === 0 && step === 0,
    );
    assert.ok(first);
    history.restore(first, true);
    assert.equal(history.branches.length, Math.min(k, 6));
  }
  assert.deepEqual(history.branches.map(({ losses }) => losses[0]), [2, 3, 4, 5, 6, 7]); // biome-ignore format: pairs
});

test("after going back, all held-out rows are sent again", async (context) => {
  let ticks = 0;
  context.mock.method(performance, "now", () => ++ticks); // each thing takes a millisecond
  Object.assign(globalThis, { document: { hidden: false } });
  const createTrainingSession = {
    plan: { values: [], parameters: [], carries: [] },
    write: () => undefined,
    run: async () => undefined,
    sample: async () => [0.5, 0, 0],
    committedState: async () => new Map(),
    commit: () => undefined,
  } as unknown as Session;
  const told: Parameters<TrainingHost["reportSteps"]>[0][] = [];
  const host = {
    planHash: "plan",
    contextLossCount: 0,
    maxChunkBytes: 2 ** 20,
    initialWeights: () => new Map(),
    withSession: (work: (one: Session) => Promise<unknown>) => work(createTrainingSession),
    refresh: async () => undefined,
    reportSteps: (stepped: (typeof told)[number]) => told.push(stepped),
    sendWeights: () => undefined,
  } as unknown as TrainingHost;
  const given = {
    config: trainingConfig({
      held_out_count: 2,
      end_step: -1,
      betas: [],
      trained_parameters: [],
      state_names: [],
      gradients: {},
      update_ratios_key: "",
      dead_units_key: "",
    }),
    trainRows: exampleRows(TEN_LABELS),
    heldOutRows: exampleRows([0, 1]),
    learningRates: undefined,
  };
  const history = new TrainingHistory();
  for (const step of [0, 5, 10]) {
    while (history.lossHistory.stepCount < step) history.lossHistory.add(1, 0);
    history.lossHistory.heldOut.push([step, 1, null]);
    const kept = {
      parameterArrays: new Map(),
      predictions: new Float32Array(),
      tensors: new Map(),
    };
    history.add({ ...kept, step, examplesSeen: 8 * step, loss: 1 }, null);
  }
  const record = { id: "t", state: "paused", pause_at: -1, start_step: 10, lr: 0.1, noise: 0 };
  let paused: () => void = () => undefined;
  const events: LoopEvents = {
    onProgress: () => undefined,
    onState: () => paused(),
    isVisible: () => false,
    selectedCheckpointId: () => null,
  };
  const loop = new TrainingLoop(host, record as unknown as TrainingRecord, given, history, events);
  const steps = () => told.splice(0).flatMap(({ held_out }) => held_out.map(([step]) => step));
  await loop.start();
  assert.deepEqual(steps(), [0, 5, 10]);
  const pausing = new Promise<void>((resolve) => {
    paused = resolve;
  });
  loop.restoreCheckpoint(history.checkpoints[1]?.id ?? -1, false);
  loop.update({ ...record, state: "running", pause_at: 6 } as unknown as TrainingRecord);
  await pausing;
  loop.close();
  assert.deepEqual(steps(), [0, 5, 6]);
});
