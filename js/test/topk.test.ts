// Scores picked out in the page, as torch.topk does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { largestOf } from "../src/statistics/topk.ts";

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
  const { places, scores: found } = largestOf(scores, 8);
  assert.deepEqual(places, [1, 7, 2, 8, 0, 3, 5, 6]);
  assert.deepEqual(found, [Number.NaN, Number.NaN, Infinity, Infinity, 1, 1, -0, 0]);
  assert.deepEqual(largestOf(scores.subarray(4), 9).places.length, 5);
});
