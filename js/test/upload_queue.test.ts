// What a session is given between two runs: inputs, weights and patches of them, as last written.
import assert from "node:assert/strict";
import test from "node:test";
import type { ImageSource, Patch } from "../src/plan/runtime.ts";
import { UploadQueue } from "../src/webgl/upload_queue.ts";
import { planHeader } from "./plan_files.ts";

const PLAN = planHeader((plan) => {
  plan.inputs[0].fit = "crop";
  plan.textures[3] = { width: 2, height: 3, layers: 2, format: "rgba32f" };
});
const [WEIGHT] = PLAN.weights;
const WEIGHT_ROWS = Float32Array.from({ length: 48 }, (_, k) => k);
const HASH = WEIGHT?.hash ?? "";
const weightTexture = WEIGHT?.texture ?? -1;

function createQueue() {
  const asked: string[] = [];
  const own = new UploadQueue(PLAN, (hash) => {
    asked.push(hash);
    return WEIGHT_ROWS;
  });
  return { own, asked };
}
const makePatch = (x: number, y: number, layer: number, width: number, height: number): Patch => ({
  texture: weightTexture,
  layer,
  x,
  y,
  width,
  height,
  data: Float32Array.from({ length: 4 * width * height }, (_, k) => 1000 + k),
});
const picture = { width: 3, height: 2 } as ImageSource;

/** Notes what is written to a device. */
function createFakeObjects() {
  const done: string[] = [];
  const one = {
    replaceWeight: (index: number, data: Float32Array, hash: string) =>
      done.push(`replace ${index} ${data[0]} ${hash}`),
    patchWeight: ({ x, y }: Patch, rows: () => Float32Array) =>
      done.push(`patch ${x} ${y} ${rows().length}`),
    write: (index: number, data: Float32Array) => done.push(`write ${index} ${data[0]}`),
    stagingTarget: () => ({}),
  };
  return { one: one as never, take: () => done.splice(0) };
}

test("an input takes as many numbers as it has, and is uploaded once for each write", () => {
  const { own } = createQueue();
  const { one, take } = createFakeObjects();
  assert.deepEqual(own.missingInputs, ["x"]);
  for (const length of [23, 25])
    assert.throws(() => own.write("x", new Float32Array(length)), /24 numbers/);
  assert.throws(() => own.write("y", new Float32Array(24)), /no input "y"/);
  assert.equal(own.writeVersion, 0);
  own.write("x", new Float32Array(24).fill(2));
  assert.deepEqual(own.missingInputs, []);
  assert.equal(own.flush(one).length, 1);
  assert.deepEqual(take(), ["write 0 2"]);
  assert.equal(own.flush(one).length, 0, "nothing is new");
  own.write("x", new Float32Array(24).fill(3));
  own.write("x", new Float32Array(24).fill(4));
  assert.equal(own.flush(one).length, 1);
  assert.deepEqual([take(), own.writeVersion], [["write 0 4"], 3]);
  own.markAllDirty();
  own.flush(one);
  assert.deepEqual(take(), ["write 0 4"], "into new objects all is written again");
});

test("a picture is taken once, numbers take its place, and new objects take it again", () => {
  const { own } = createQueue();
  const { one } = createFakeObjects();
  const taken: unknown[] = [];
  const gone: string[] = [];
  const feeding = {
    drawPicture: (_: unknown, { picture: given }: { picture: unknown }) => {
      taken.push(given);
      return true;
    },
    freeInput: (key: string) => gone.push(key),
  } as never;
  own.feed("x", { picture, mirrored: false });
  assert.equal(own.hasNewPicture, true);
  assert.deepEqual(own.missingInputs, []);
  assert.equal(own.flush(one, feeding).length, 1);
  assert.equal(own.hasNewPicture, false);
  assert.equal(own.flush(one, feeding).length, 0);
  assert.deepEqual([taken, gone], [[picture], []]);
  own.markAllDirty();
  own.flush(one, feeding);
  assert.equal(taken.length, 2);
  own.write("x", new Float32Array(24));
  own.flush(one, feeding);
  assert.deepEqual([taken.length, gone], [2, ["x"]]);
  const plain = new UploadQueue(planHeader(), () => WEIGHT_ROWS);
  assert.throws(() => plain.feed("x", { picture, mirrored: false }), /x/);
});

test("weights that are set have their hash, and patches on top of them none", () => {
  const { own } = createQueue();
  assert.deepEqual([own.weightData(0), own.weightHash(0)], [WEIGHT_ROWS, HASH]);
  const other = new Float32Array(48).fill(7);
  own.setWeight(weightTexture, other, "another");
  assert.deepEqual([own.weightData(0), own.weightHash(0)], [other, "another"]);
  own.patchWeight(makePatch(0, 0, 0, 1, 1));
  assert.equal(own.weightHash(0), "");
  assert.equal(own.weightData(0)[0], 1000);
  assert.equal(other[0], 7, "a copy");
  own.setWeight(weightTexture, WEIGHT_ROWS);
  assert.deepEqual([own.weightData(0), own.weightHash(0)], [WEIGHT_ROWS, ""]);
});

test("a patch fits up to the last row, column and layer", () => {
  const { own } = createQueue();
  own.patchWeight(makePatch(1, 2, 1, 1, 1));
  own.patchWeight(makePatch(0, 0, 0, 2, 3));
  own.patchWeight(makePatch(0, 2, 1, 2, 1));
  for (const wrong of [
    makePatch(1, 0, 0, 2, 1),
    makePatch(0, 1, 0, 1, 3),
    makePatch(0, 0, 2, 1, 1),
  ])
    assert.throws(() => own.patchWeight(wrong), /does not fit into weight texture/);
  assert.throws(() => own.patchWeight({ ...makePatch(0, 0, 0, 2, 2), width: 1 }), /does not fit/);
  assert.throws(
    () => own.patchWeight({ ...makePatch(0, 0, 0, 1, 1), texture: 0 }),
    /holds no weight/,
  );
  const rows = own.weightData(0);
  assert.deepEqual([...rows.slice(0, 4)], [1000, 1001, 1002, 1003]);
  assert.deepEqual([...rows.slice(20, 28)], [1020, 1021, 1022, 1023, 24, 25, 26, 27]);
  assert.deepEqual([...rows.slice(40)], [1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007]);
});

test("weights and patches go to the device once, patches behind what they lie on", () => {
  const { own } = createQueue();
  const { one, take } = createFakeObjects();
  own.setWeight(weightTexture, new Float32Array(48).fill(5), "five");
  own.patchWeight(makePatch(0, 0, 0, 1, 1));
  own.patchWeight(makePatch(1, 1, 0, 1, 1));
  own.flushWeights(one);
  assert.deepEqual(take(), [`replace ${weightTexture} 5 five`, "patch 0 0 48", "patch 1 1 48"]);
  own.flushWeights(one);
  assert.deepEqual(take(), []);
  own.patchWeight(makePatch(0, 2, 0, 1, 1));
  own.setWeight(weightTexture, new Float32Array(48).fill(6));
  own.flushWeights(one);
  assert.deepEqual(take(), [`replace ${weightTexture} 6 `], "no patch of the weights before");
  assert.throws(() => own.setWeight(weightTexture, new Float32Array(47)), /48 numbers, not 47/);
  assert.throws(() => own.setWeight(0, new Float32Array(24)), /holds no weight/);
});
