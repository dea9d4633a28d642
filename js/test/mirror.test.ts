// A page that follows a loop in Python: weights that come in parts, and a curve that it has seen in part.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { signal } from "@preact/signals";
import type { Engine, NetworkContent } from "../src/engine/types.ts";
import type { PythonLink } from "../src/features/feature.ts";
import {
  NO_TRAINING,
  type TrainingActions,
  type WeightDataByTexture,
} from "../src/features/training/state.ts";
import type { MirrorFrame } from "../src/messages.ts";
import type { Session } from "../src/plan/runtime.ts";
import type { ViewerState } from "../src/state.ts";
import "./text_imports.ts";

const { NotebookTrainingHost: NotebookHost } = await import(
  "../src/features/training/notebook_host.ts"
);
const { WeightFollower: Mirroring } = await import("../src/features/mirror/weight_follower.ts");
const { LossHistory: Line } = await import("../src/features/training/loss_history.ts");

mock.timers.enable({ apis: ["setTimeout"] });

/** After this, promises that are settled have called back. */
const flushPromises = async (): Promise<void> => {
  for (let k = 0; k < 20; k++) await Promise.resolve();
};

type TakeFrame = (
  message: MirrorFrame,
  data: Uint8Array<ArrayBuffer>,
) => WeightDataByTexture | undefined;

const bytes = (...numbers: number[]): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Float32Array.from(numbers).buffer);

/** A page with textures of four and of eight numbers, and what Python says of the past. */
function createMirrorPage(past: readonly (readonly [number, number])[] = []) {
  const line = new Line();
  for (const one of past) line.add(...one);
  const asked: string[] = [];
  const textures = [{ width: 1, height: 1, layers: 1 }, { width: 1, height: 2, layers: 1 }]; // biome-ignore format: pairs
  const own = {
    progress: signal(NO_TRAINING),
    trainingActions: signal<TrainingActions | null>(null),
    selectedCheckpointId: signal<number | null>(null),
    weightReceiver: signal<TakeFrame | null>(null),
    run: signal(0),
    session: signal(0),
    weightOverrides: signal<WeightDataByTexture>(new Map([[7, Float32Array.of(9)]])),
    plan: signal({ textures, parameters: [] }),
    earlierWeights: signal<WeightDataByTexture | null>(null),
  };
  const blob = async (name: string) => {
    asked.push(name);
    const numbers = [line.stepCount, 0, ...line.losses, ...line.accuracies];
    return bytes(...numbers);
  };
  const session = { plan: { parameters: [] } } as unknown as Session;
  const engine: {
    currentContent: NetworkContent | undefined;
    loadedContent: NetworkContent | undefined;
    initialWeightData: Engine["initialWeightData"];
    withSession: Engine["withSession"];
  } = {
    currentContent: undefined,
    loadedContent: undefined,
    initialWeightData: () => new Map(engine.loadedContent?.weightOverrides),
    withSession: (work) => work(session),
  };
  const python = { send: () => undefined } as Partial<PythonLink> as PythonLink;
  const host = new NotebookHost({ pageId: "p", engine: engine as Engine, blob }, python);
  const record = { id: "a", swap_count: 1, state: "running" };
  const mirroring = new Mirroring(own as unknown as ViewerState, host, record as never);
  const message = (more: Partial<MirrorFrame> = {}): MirrorFrame => ({
    type: "mirrorframe",
    training: "a",
    base: 0,
    revision: 1,
    textures: [0, 1],
    chunk_index: 0,
    chunk_count: 1,
    step: 1,
    first_step: 0,
    loss_rows: 0,
    held_out: [],
    ...more,
  });
  const take = (more: Partial<MirrorFrame>, ...numbers: number[]) => {
    const found = own.weightReceiver.value?.(message(more), bytes(...numbers));
    return found && Object.fromEntries([...found].map(([k, all]) => [k, [...all]]));
  };
  /** Weights behind a step come, and their run begins; the result ends it. */
  const begin = (step: number): (() => Promise<void>) => {
    const data = bytes(...FOUR_BYTES, ...EIGHT_BYTES);
    const weightOverrides = own.weightReceiver.value?.(message({ step, textures: [0, 1] }), data);
    assert.ok(weightOverrides);
    engine.loadedContent = { planHash: "plan", weightHashes: [], inputHashes: [], weightOverrides };
    engine.currentContent = undefined;
    return async () => {
      engine.currentContent = engine.loadedContent;
      own.run.value += 1;
      mock.timers.tick(300);
      await flushPromises();
    };
  };
  return { own, mirroring, take, asked, begin };
}

const FOUR_BYTES = [1, 2, 3, 4];
const EIGHT_BYTES = [11, 12, 13, 14, 15, 16, 17, 18];

test("weights are those of their textures, and others stay", () => {
  const { take, mirroring } = createMirrorPage();
  assert.deepEqual(take({}, ...FOUR_BYTES, ...EIGHT_BYTES), {
    0: FOUR_BYTES,
    1: EIGHT_BYTES,
    7: [9],
  });
  assert.deepEqual(take({ textures: [1] }, ...EIGHT_BYTES), { 1: EIGHT_BYTES, 7: [9] });
  // One number too many or too few: of another Plan.
  assert.equal(take({}, ...FOUR_BYTES, ...EIGHT_BYTES, 0), undefined);
  assert.equal(take({}, ...FOUR_BYTES, ...EIGHT_BYTES.slice(1)), undefined);
  assert.equal(take({ textures: [0, 5] }, ...FOUR_BYTES, ...EIGHT_BYTES), undefined);
  mirroring.close();
});

test("parts are put together in their order alone, and a first part begins again", () => {
  const { take, mirroring } = createMirrorPage();
  const part = (k: number, ...numbers: number[]) =>
    take({ chunk_index: k, chunk_count: 3 }, ...numbers);
  const [left, right] = [EIGHT_BYTES.slice(0, 4), EIGHT_BYTES.slice(4)];
  assert.equal(part(0, ...FOUR_BYTES), undefined);
  assert.equal(part(1, ...left), undefined);
  assert.deepEqual(part(2, ...right), { 0: FOUR_BYTES, 1: EIGHT_BYTES, 7: [9] });
  assert.equal(part(1, ...left), undefined, "nothing has begun");
  // The one before was broken off.
  part(0, 0, 0, 0, 0);
  part(1, 0, 0, 0, 0);
  part(0, ...FOUR_BYTES);
  part(2, ...right); // out of order
  take({ training: "b", chunk_index: 1, chunk_count: 3 }, ...right);
  part(1, ...left);
  part(1, ...left); // twice
  assert.deepEqual(part(2, ...right), { 0: FOUR_BYTES, 1: EIGHT_BYTES, 7: [9] });
  mirroring.close();
});

test("a curve grows by the steps of a message, and what comes twice takes the place of what was there", async () => {
  const { own, take, mirroring, asked } = createMirrorPage();
  await flushPromises();
  assert.deepEqual(asked, ["a"]);
  const weights = [...FOUR_BYTES, ...EIGHT_BYTES];
  take({ loss_rows: 2, step: 2 }, 0.5, 0.25, 0.375, 0.5, ...weights);
  const curve = () => {
    const { losses, accuracies, step } = own.progress.value;
    return [losses, accuracies, step];
  };
  assert.deepEqual(curve(), [[0.5, 0.375], [0.25, 0.5], 2]);
  take({ first_step: 2, loss_rows: 1, step: 3 }, 0.125, 0.75, ...weights);
  assert.deepEqual(curve(), [[0.5, 0.375, 0.125], [0.25, 0.5, 0.75], 3]);
  take({ first_step: 1, loss_rows: 1, step: 2 }, 0.0625, 1, ...weights);
  assert.deepEqual(curve(), [[0.5, 0.0625], [0.25, 1], 2]);
  assert.equal(asked.length, 1);
  mirroring.close();
});

test("steps that a page has not seen are asked for, and an older past is not taken", async () => {
  const past = [[4, 0], [3, 0.5], [2, 1]] as const; // biome-ignore format: pairs
  const { own, take, mirroring, asked } = createMirrorPage(past);
  // A message comes before the past, with steps behind it.
  take({ first_step: 3, loss_rows: 1, step: 4 }, 1, 1, ...FOUR_BYTES, ...EIGHT_BYTES);
  assert.deepEqual(own.progress.value.losses, []);
  assert.equal(asked.length, 2);
  await flushPromises();
  assert.deepEqual(own.progress.value.losses, [4, 3, 2]);
  take({ first_step: 3, loss_rows: 1, step: 4 }, 1, 1, ...FOUR_BYTES, ...EIGHT_BYTES);
  assert.deepEqual(own.progress.value.losses, [4, 3, 2, 1]);
  assert.equal(asked.length, 2);
  take({ first_step: 6, loss_rows: 1, step: 7 }, 0, 1, ...FOUR_BYTES, ...EIGHT_BYTES);
  await flushPromises();
  assert.deepEqual(own.progress.value.losses, [4, 3, 2, 1], "what came is shorter");
  mirroring.close();
  assert.equal(own.weightReceiver.value, null);
});

test("a checkpoint can be looked at while newer weights are computed, and stays so behind them", async () => {
  const { own, mirroring, begin } = createMirrorPage();
  await begin(1)();
  const end = begin(2);
  const { progress, trainingActions, earlierWeights } = own;
  assert.deepEqual(
    progress.value.checkpoints.map(({ id, step, isRestorable }) => [id, step, isRestorable]),
    [[1, 1, true]],
  );
  trainingActions.value?.showCheckpoint(1);
  const rows = earlierWeights.value;
  assert.deepEqual([...(rows ?? [])].slice(-2), [[0, Float32Array.from(FOUR_BYTES)], [1, Float32Array.from(EIGHT_BYTES)]]); // biome-ignore format: pairs
  assert.equal(progress.value.shownCheckpointId, 1);
  await end();
  await begin(3)();
  assert.equal(earlierWeights.value, rows);
  assert.equal(progress.value.shownCheckpointId, 1);
  mirroring.close();
});

test("the checkpoint that is looked at is kept, however many come behind it", async () => {
  const { own, mirroring, begin } = createMirrorPage();
  for (const step of [1, 10, 20]) await begin(step)();
  own.selectedCheckpointId.value = 3;
  own.trainingActions.value?.showCheckpoint(3);
  for (let step = 40; step < 1e6; step = 2 * step) await begin(step)();
  const { checkpoints, shownCheckpointId } = own.progress.value;
  assert.equal(checkpoints.length, 12);
  assert.equal(shownCheckpointId, 3);
  assert.ok(checkpoints.some(({ id, step }) => id === 3 && step === 20));
  mirroring.close();
});
