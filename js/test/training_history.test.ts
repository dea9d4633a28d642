// What a training remembers: checkpoints that grow sparser, curves that are left, and what Python is told of both.
import assert from "node:assert/strict";
import test from "node:test";
import { nextCheckpointStep } from "../src/features/training/checkpoints.ts";
import { LossHistory } from "../src/features/training/loss_history.ts";
import { TrainingHistory } from "../src/features/training/training_history.ts";

const checkpointAt = (step: number, bytes = 4) => ({
  step,
  examplesSeen: 10 * step,
  loss: step,
  parameterArrays: new Map([["w", new Float32Array(bytes / 4).fill(step)]]),
  predictions: new Float32Array(),
  tensors: new Map(),
});

/** A training until a step, whose losses are `loss(k)`. */
function historyUntil(
  step: number,
  loss: (k: number) => number,
  history = new TrainingHistory(),
): TrainingHistory {
  if (history.lastCheckpoint === undefined) history.add(checkpointAt(0), null);
  for (let k = history.lossHistory.stepCount; k < step; k++) {
    history.lossHistory.add(loss(k), Number.NaN);
    if (k + 1 >= nextCheckpointStep(history.lastCheckpoint?.step ?? 0))
      history.add(checkpointAt(k + 1), null);
  }
  return history;
}

const checkpointSteps = ({ checkpoints }: TrainingHistory, branch = 0): number[] =>
  checkpoints.filter((one) => one.branchNumber === branch).map(({ step }) => step);

test("checkpoints come ever more rarely, and the first and the last stay", () => {
  assert.deepEqual(checkpointSteps(historyUntil(20, Math.sqrt)), [0, 5, 10, 16]);
  const found = checkpointSteps(historyUntil(100_000, Math.sqrt));
  assert.equal(found.length, 12);
  assert.equal(found[0], 0);
  assert.ok((found.at(-1) ?? 0) > 100_000 / 1.6, `${found}`);
  const growth = found.slice(1).map((step, k) => Math.log((step + 5) / ((found[k] ?? 0) + 5)));
  assert.ok(Math.max(...growth) < 3 * Math.min(...growth), `${found}`);
});

test("states that are too large together are fewer", () => {
  const history = new TrainingHistory();
  for (let k = 0; k < 6; k++) history.add(checkpointAt(8 ** k, 2 ** 26), null);
  // 8 went first, of 1, 8, 64, 512 and 4096 the one whose neighbours are nearest; then 512.
  assert.deepEqual(checkpointSteps(history), [1, 8 ** 2, 8 ** 4, 8 ** 5]);
});

test("the checkpoint that is chosen stays, whatever comes", () => {
  const history = new TrainingHistory();
  for (let k = 0; k < 6; k++) history.add(checkpointAt(8 ** k, 2 ** 26), 2);
  // 8 would have gone first, then 512; in their place 64 and 4096.
  assert.deepEqual(checkpointSteps(history), [1, 8, 8 ** 3, 8 ** 5]);
  history.add(checkpointAt(8 ** 6, 2 ** 29), 2);
  assert.deepEqual(
    checkpointSteps(history),
    [1, 8, 8 ** 6],
    "of too many bytes first, last and chosen",
  );
});

test("a state at the step of another one takes its place", () => {
  const history = historyUntil(20, Math.sqrt);
  history.add({ ...checkpointAt(10), loss: -1 }, null);
  assert.deepEqual(checkpointSteps(history), [0, 5, 10]);
  assert.equal(history.lastCheckpoint?.loss, -1);
});

test("going back without keeping forgets what is behind", () => {
  const history = historyUntil(20, Math.sqrt);
  const to = history.checkpoints[1];
  assert.ok(to);
  assert.equal(history.restore(to, false), 5);
  assert.deepEqual(
    [checkpointSteps(history), history.lossHistory.stepCount, history.branches],
    [[0, 5], 5, []],
  );
  assert.deepEqual(history.lossHistory.losses, [0, 1, 2, 3, 4].map(Math.sqrt));
});

test("going back with keeping leaves a branch, to which one can go back again", () => {
  const history = historyUntil(20, Math.sqrt);
  const to = history.checkpoints[1];
  assert.ok(to);
  assert.equal(history.restore(to, true), 5);
  assert.deepEqual(
    [checkpointSteps(history), checkpointSteps(history, 1)],
    [
      [0, 5],
      [10, 16],
    ],
  );
  assert.equal(history.branches[0]?.losses.length, 20);

  historyUntil(12, (k) => -k, history);
  assert.deepEqual(
    [checkpointSteps(history), checkpointSteps(history, 1)],
    [
      [0, 5, 10],
      [10, 16],
    ],
  );
  const there = history.checkpoints.find(
    ({ branchNumber, step }) => branchNumber === 1 && step === 16,
  );
  assert.ok(there);
  assert.equal(history.restore(there, true), 5); // from there on the curves differ
  assert.deepEqual(
    history.lossHistory.losses,
    Array.from({ length: 16 }, (_, k) => Math.sqrt(k)),
  );
  // What lies on the way to it is its own now; the curve that was left is the second branch.
  assert.deepEqual(
    [checkpointSteps(history), checkpointSteps(history, 1), checkpointSteps(history, 2)],
    [[0, 5, 10, 16], [], [10]],
  );
  assert.deepEqual(
    history.branches.map(({ losses }) => losses.length),
    [20, 12],
  );
  assert.equal(history.lastCheckpoint?.step, 16);
});

test("going back to the middle of a branch leaves the branch its later checkpoints", () => {
  const history = historyUntil(20, Math.sqrt);
  const first = history.checkpoints[1];
  assert.ok(first);
  history.restore(first, true);
  historyUntil(12, (k) => -k, history);
  const middle = history.checkpoints.find(
    ({ branchNumber, step }) => branchNumber === 1 && step === 10,
  );
  assert.ok(middle);
  history.restore(middle, false);
  assert.deepEqual([checkpointSteps(history), checkpointSteps(history, 1)], [[0, 5, 10], [16]]);
  assert.equal(history.lastCheckpoint?.step, history.lossHistory.stepCount);
});

test("of many branches the first goes, with its checkpoints", () => {
  const history = historyUntil(12, Math.sqrt);
  for (let k = 0; k < 7; k++) {
    const to = history.checkpoints.find(
      ({ branchNumber, step }) => branchNumber === 0 && step === 5,
    );
    assert.ok(to);
    history.restore(to, true);
    historyUntil(12, (step) => step + 100 * (k + 1), history);
  }
  assert.equal(history.branches.length, 6);
  assert.deepEqual(history.branches[0]?.losses.slice(5, 7), [105, 106]);
  for (let branch = 1; branch <= 6; branch++)
    assert.deepEqual(checkpointSteps(history, branch), [10]);
  assert.deepEqual(checkpointSteps(history), [0, 5, 10]);
});

test("a line is what Python writes, and tells it two numbers for each step", () => {
  // Two counts, losses, accuracies, and rows of what is held out.
  const written = new Float32Array([3, 2, 4, 5, 6, 0.25, 0.5, 0.75, 0, 9, Number.NaN, 3, 7, 0.5]);
  const line = LossHistory.unpack(new Uint8Array(written.buffer));
  assert.deepEqual(line.snapshot(), {
    losses: [4, 5, 6],
    accuracies: [0.25, 0.5, 0.75],
    heldOut: [
      [0, 9, null],
      [3, 7, 0.5],
    ],
  });
  assert.equal(LossHistory.packedElementCount(line), written.length);
  assert.deepEqual([...line.packFrom(1)], [5, 0.5, 6, 0.75]);
  line.truncate(2);
  assert.deepEqual(line.snapshot(), {
    losses: [4, 5],
    accuracies: [0.25, 0.5],
    heldOut: [[0, 9, null]],
  });
});
