// Where edits act in a Plan, which values they change, and how long runs with them are expected to take.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  beforeEditsKey,
  differenceKey,
  intermediateKey,
  splitKey,
  uneditedKey,
} from "../src/plan/derived_values.ts";
import {
  buildEditStacks,
  editedTexture,
  isActive,
  sourceTexture,
} from "../src/plan/edit_stacks.ts";
import type { Edit } from "../src/plan/edits.ts";
import { relocateValue } from "../src/plan/relocated_values.ts";
import { RunTimeEstimate } from "../src/plan/run_time_estimate.ts";
import type { Pass, Value } from "../src/plan/schema.ts";
import { PLAIN_EDIT } from "./plain_edit.ts";
import { planHeader } from "./plan_files.ts";

const makeEdit = (layer: string, changes: Partial<Edit> = {}): Edit => ({
  ...PLAIN_EDIT,
  layer,
  name: `${layer} ${JSON.stringify(changes)}`,
  transform: "invert",
  ...changes,
});

/** A convolution's value, a module's name for it, a view of that, and what is made of them later. */
const [template] = planHeader().values as [Value];
const makeValue = (key: string, texture: number, edit_pass: number, view_of: number): Value => {
  return { ...template, key, texture, edit_pass, view_of };
};
const plan = {
  values: [
    makeValue("later", 2, 5, -1),
    makeValue("view", 1, 3, 2),
    makeValue("module", 1, 3, 3),
    makeValue("conv", 1, 3, -1),
    makeValue("x", 0, -1, -1),
  ],
};

test("edits run behind the pass that makes their value, those of a view behind what it is of", () => {
  const edits = ["later", "view", "conv", "module", "view", "x"].map((layer) => makeEdit(layer));
  const stacks = buildEditStacks(plan, edits);
  assert.deepEqual(
    stacks.map(({ value: { key }, edits: own }) => [key, own.length]),
    [
      ["x", 1],
      ["conv", 1],
      ["module", 1],
      ["view", 2],
      ["later", 1],
    ],
  );
});

test("what is edited as another value has that one's edits, but for arrays in its place", () => {
  const step = { ...makeValue("train.bent conv", 4, 9, -1), shares_edits_of: "conv" };
  const values = [...plan.values, step];
  const stacks = buildEditStacks({ values }, [
    makeEdit("conv"),
    makeEdit("x"),
    makeEdit("conv", { transform: "inject", array_hash: "a hash" }),
  ]);
  assert.deepEqual(
    stacks.map(({ value: { key }, edits }) => [key, edits.map(({ transform }) => transform)]),
    [
      ["x", ["invert"]],
      ["conv", ["invert", "inject"]],
      ["train.bent conv", ["invert"]],
    ],
  );
});

test("a value lies where the last edit of it, or of what it is a view of, has left it", () => {
  const bent = new Map([
    [3, 10],
    [1, 11],
  ]);
  assert.equal(editedTexture(plan, 3, bent), 10);
  assert.equal(sourceTexture(plan, 3, bent), 1);
  assert.equal(editedTexture(plan, 2, bent), 10, "the module's name for it");
  assert.equal(sourceTexture(plan, 1, bent), 10);
  assert.equal(editedTexture(plan, 1, bent), 11);
  assert.equal(editedTexture(plan, 0, bent), 2);
});

test("an edit that is off, mixed to nothing or of no channel does nothing", () => {
  const all = [{}, { enabled: false }, { mix: 0 }, { channels: [] }, { channels: [0], mix: 0.1 }];
  assert.deepEqual(
    all.map((change) => isActive(makeEdit("x", change))),
    [true, false, false, false, true],
  );
});

test("keys of what follows from a value lead back to it", () => {
  assert.deepEqual(splitKey("a.b:2"), ["", "a.b:2"]);
  assert.deepEqual(splitKey(beforeEditsKey("a.b:2")), ["before", "a.b:2"]);
  assert.deepEqual(splitKey(uneditedKey("x")), ["without", "x"]);
  assert.deepEqual(splitKey(intermediateKey("a.b:2", 3)), ["stage 3", "a.b:2"]);
  const stages = [0, 1, 10].map((k) => intermediateKey("x", k));
  assert.equal(
    new Set([...stages, beforeEditsKey("x"), uneditedKey("x"), differenceKey("x")]).size,
    6,
  );
});

test("a value elsewhere is read from there, in the same layout", () => {
  const moved = relocateValue(template, 9, "y");
  assert.deepEqual([moved.key, moved.texture], ["y", 9]);
  assert.deepEqual(moved.readback.draw_pass.inputs, [9, 3], "the weight stays");
  assert.deepEqual(moved.layout_words, template.layout_words);
  assert.equal(relocateValue(template, template.texture), template);
});

test("a run with more to do is expected to take longer by that, and one with less shorter", () => {
  const pass = (cost: number): Pass => {
    const rest = { program: 0, inputs: [], output: 0, uniforms: 0, layer: -1, input_values: [] };
    return { ...rest, viewport: [1, 1], cost };
  };
  const own = [pass(100), pass(300)];
  const edited = [...own, pass(600)];
  const times = new RunTimeEstimate(own);
  times.calibrate(10);
  assert.equal(times.expectedMs([0], edited), 100, "by the device's speed");
  times.record([0], own, 20, false);
  assert.equal(times.measuredMs([0], own), 20);
  assert.equal(times.expectedMs([0], edited), 50);
  times.record([0], edited, 80, false);
  assert.equal(times.expectedMs([0], own), 32);
  // Held up once and seen by fences of slices, it comes down again to what its cost says, and no further.
  times.record([0], own, 1600, false);
  for (let k = 0; k < 20; k++) times.record([0], own, 2 * times.expectedMs([0], own), false, true);
  assert.equal(times.expectedMs([0], own), 40);
  times.record([0], own, 1600, false, true);
  assert.ok(times.expectedMs([0], own) <= 40, "one that is seen late makes none longer");
  const free = new RunTimeEstimate([pass(0)]);
  free.record([0], [pass(0)], 5, false);
  assert.equal(free.expectedMs([0], [pass(0)]), 5);
});
