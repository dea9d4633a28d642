// What is said of layers that Python computes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { longType, stagesOf } from "../src/network/network.ts";
import {
  outdatedLayers,
  pythonLayerOf,
  pythonLayers,
  pythonLayerText,
} from "../src/network/python_layers.ts";
import type { PlanHeader, Value } from "../src/plan/schema.ts";
import { layer } from "./layer_records.ts";

const WHY = "the operator LSTM is not among those that run";
const lstm = (name: string, input: string) =>
  layer(name, "Conv", [input], { module: "LSTM", type: "LSTM", python: WHY });
const layers = [
  layer("a", "Conv", ["x"]),
  layer("side", "Conv", ["x"]),
  lstm("b", "a"),
  layer("c", "Relu", ["b"]),
  lstm("d", "c"),
  layer("e", "Add", ["d", "side"]),
  lstm("f", "e"),
];
const plan = { layers } as unknown as PlanHeader;

test("a layer in Python is a stage by itself, whatever follows it", () => {
  const stages = stagesOf(layers, new Set(["x"])).map((stage) =>
    stage.layers.map(({ name }) => name),
  );
  assert.deepEqual(stages, [["a"], ["side"], ["b"], ["c"], ["d"], ["e"], ["f"]]);
  assert.equal(longType(layers[2] ?? lstm("", "")), "LSTM (in Python)");
  assert.deepEqual(
    pythonLayers(plan).map(({ name }) => name),
    ["b", "d", "f"],
  );
});

test("a value is Python's where its layer is, also under another name", () => {
  const value = (layer: number) => ({ key: "output", layer }) as unknown as Value;
  assert.equal(pythonLayerOf(plan, value(6))?.name, "f");
  assert.equal(pythonLayerOf(plan, value(5)), undefined);
  assert.equal(pythonLayerOf(plan, value(-1)), undefined);
  assert.equal(pythonLayerOf(null, undefined), undefined);
});

test("what the page changes makes old what Python computed of it, and nothing behind that", () => {
  assert.deepEqual([...outdatedLayers(plan, new Set())], []);
  // b keeps its value, so that c and d follow from nothing that was changed.
  assert.deepEqual([...outdatedLayers(plan, new Set(["a"]))], ["b"]);
  assert.deepEqual([...outdatedLayers(plan, new Set(["side"]))], ["f"]);
  assert.deepEqual([...outdatedLayers(plan, new Set(["x"]))], ["b", "f"]);
  assert.deepEqual([...outdatedLayers(plan, new Set(["c"]))], ["d"]);
});

test("it is said for which input", () => {
  assert.equal(pythonLayerText(lstm("b", "a"), false), "computed in Python: LSTM, for this input");
  assert.match(
    pythonLayerText(lstm("b", "a"), true),
    /for the last input from Python; its input in the page has changed/,
  );
});
