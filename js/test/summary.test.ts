// Statistics that are computed in JavaScript, where the device draws too few bits to count.
import assert from "node:assert/strict";
import test from "node:test";
import { channelSummary, reducedHere, summary } from "../src/gl/summary.ts";

test("channels of one image are reduced over finite values, the others counted", () => {
  const first = [9, 9, 9, 9, 9, 9, 9, 9];
  const second = [1, -3, 0, 6, Number.NaN, Number.POSITIVE_INFINITY, 0, 4];
  const data = Float32Array.from([...first, ...second]);
  const [, mixed] = reducedHere(data, [2, 1, 2, 4], 0).concat(reducedHere(data, [2, 1, 2, 4], 1));
  assert.ok(mixed);
  const found = channelSummary(mixed);
  const values = [1, -3, 0, 6, 0, 4];
  const mean = values.reduce((a, b) => a + b) / values.length;
  const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length;
  assert.deepEqual([found.min, found.max, found.nan, found.inf], [-3, 6, 1, 1]);
  assert.equal(found.zeros, 2 / 8);
  assert.ok(Math.abs(found.mean - mean) < 1e-12);
  assert.ok(Math.abs(found.std - Math.sqrt(variance)) < 1e-12);
});

test("a map without a finite value has no mean", () => {
  const nothing = Float32Array.of(Number.NaN, Number.NEGATIVE_INFINITY);
  const found = summary(reducedHere(nothing, [1, 1, 1, 2], 0));
  assert.ok(Number.isNaN(found.mean) && Number.isNaN(found.min) && Number.isNaN(found.std));
  assert.deepEqual([found.nan, found.inf, found.zeros], [1, 1, 0]);
});
