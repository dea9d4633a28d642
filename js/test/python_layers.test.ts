// What is said of layers that Python computes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { groupIntoStages, longType } from "../src/network/network.ts";
import {
  outdatedLayers,
  pythonLayerOf,
  pythonLayers,
  pythonLayerText,
} from "../src/network/python_layers.ts";
import type { PlanHeader, Value } from "../src/plan/schema.ts";
import { makeLayer } from "./layer_records.ts";

const PYTHON_REASON = "the operator LSTM is not among those that run";
const lstmLayer = (name: string, input: string) =>
  makeLayer(name, "Conv", [input], { module: "LSTM", type: "LSTM", python: PYTHON_REASON });
const layers = [
  makeLayer("a", "Conv", ["x"]),
  makeLayer("side", "Conv", ["x"]),
  lstmLayer("b", "a"),
  makeLayer("c", "Relu", ["b"]),
  lstmLayer("d", "c"),
  makeLayer("e", "Add", ["d", "side"]),
  lstmLayer("f", "e"),
];
const plan = { layers } as unknown as PlanHeader;

test("a layer in Python is a stage by itself, whatever follows it", () => {
  const stages = groupIntoStages(layers, new Set(["x"])).map((stage) =>
    stage.layers.map(({ name }) => name),
  );
  assert.deepEqual(stages, [["a"], ["side"], ["b"], ["c"], ["d"], ["e"], ["f"]]);
  assert.equal(longType(layers[2] ?? lstmLayer("", "")), "LSTM (in Python)");
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
  assert.equal(
    pythonLayerText(lstmLayer("b", "a"), false),
    "computed in Python: LSTM, for this input",
  );
  assert.match(
    pythonLayerText(lstmLayer("b", "a"), true),
    /for the last input from Python; its input in the page has changed/,
  );
});
