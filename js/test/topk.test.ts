// Scores picked out in the page, as torch.topk does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { topk } from "../src/statistics/topk.ts";

test("the largest come first, NaN before all, and of equal ones the first", () => {
  const scores = Float32Array.of(
    1,
    Number.NaN,
    Infinity,
    1,
    -Infinity,
    -0,
    0,
    Number.NaN,
    Infinity,
  );
  const { indices, scores: found } = topk(scores, 8);
  assert.deepEqual(indices, [1, 7, 2, 8, 0, 3, 5, 6]);
  assert.deepEqual(found, [Number.NaN, Number.NaN, Infinity, Infinity, 1, 1, -0, 0]);
  assert.deepEqual(topk(scores.subarray(4), 9).indices.length, 5);
});
