// Statistics that are computed in JavaScript, where the device draws too few bits to count.
import assert from "node:assert/strict";
import test from "node:test";
import { binEdges } from "../src/statistics/histogram_bins.ts";
import {
  reduceChannelsOnCpu,
  summarizeChannel,
  summarizeChannels,
} from "../src/statistics/summary.ts";

test("channels of one image are reduced over finite values, the others counted", () => {
  const first = [9, 9, 9, 9, 9, 9, 9, 9];
  const second = [1, -3, 0, 6, Number.NaN, Number.POSITIVE_INFINITY, 0, 4];
  const data = Float32Array.from([...first, ...second]);
  const [, mixed] = reduceChannelsOnCpu(data, [2, 1, 2, 4], 0).concat(
    reduceChannelsOnCpu(data, [2, 1, 2, 4], 1),
  );
  assert.ok(mixed);
  const found = summarizeChannel(mixed);
  const values = [1, -3, 0, 6, 0, 4];
  const mean = values.reduce((a, b) => a + b) / values.length;
  const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length;
  assert.deepEqual([found.min, found.max, found.nan, found.inf], [-3, 6, 1, 1]);
  assert.equal(found.zeroFraction, 2 / 8);
  assert.ok(Math.abs(found.mean - mean) < 1e-12);
  assert.ok(Math.abs(found.std - Math.sqrt(variance)) < 1e-12);
});

test("channels together vary around the mean of all", () => {
  const data = Float32Array.of(1, 1, 5, 5, 5, 5, 9, 9);
  const found = summarizeChannels(reduceChannelsOnCpu(data, [1, 4, 1, 2], 0));
  assert.deepEqual([found.min, found.max, found.mean, found.std], [1, 9, 5, Math.sqrt(8)]);
});

test("a map without a finite value has no mean", () => {
  const nothing = Float32Array.of(Number.NaN, Number.NEGATIVE_INFINITY);
  const found = summarizeChannels(reduceChannelsOnCpu(nothing, [1, 1, 1, 2], 0));
  assert.ok(Number.isNaN(found.mean) && Number.isNaN(found.min) && Number.isNaN(found.std));
  assert.deepEqual([found.nan, found.inf, found.zeroFraction], [1, 1, 0]);
});

test("bins meet at the least float32 that is not below where they do", () => {
  for (const [low, high, bins] of [
    [-1, 2, 7],
    [0, 1e-40, 3],
    [-3e38, 3e38, 10],
    [5, 5.0000005, 4],
  ]) {
    const edges = binEdges(low ?? 0, high ?? 0, bins ?? 0);
    assert.equal(edges.length, (bins ?? 0) - 1);
    for (const [k, edge] of edges.entries()) {
      if (edge === 0) continue;
      const exact = (low ?? 0) + (k + 1) * (((high ?? 0) - (low ?? 0)) / (bins ?? 0));
      const bits = new Int32Array(Float32Array.of(edge).buffer);
      bits[0] = (bits[0] ?? 0) - (edge > 0 ? 1 : -1);
      const [below = 0] = new Float32Array(bits.buffer);
      assert.ok(edge >= exact && below < exact, `${edge} for ${exact}`);
    }
  }
});
