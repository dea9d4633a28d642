// The bins of a histogram: where they meet, and what is in them; float64, no GL.

import type { Histogram } from "../plan/runtime.ts";
import type { ChannelReduction } from "./summary.ts";

/** What a device counts: values from each edge on that are finite and not zero. */
export function countOnCpu(values: Float32Array, edges: Float32Array): number[] {
  const counts = new Array<number>(edges.length).fill(0);
  for (const value of values) {
    if (value === 0 || !Number.isFinite(value)) continue;
    // Edges grow: those up to the value are the first ones.
    let [from, to] = [0, edges.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((edges[middle] ?? 0) <= value) from = middle + 1;
      else to = middle;
    }
    if (from > 0) counts[from - 1] = (counts[from - 1] ?? 0) + 1;
  }
  for (let k = counts.length - 2; k >= 0; k--) counts[k] = (counts[k] ?? 0) + (counts[k + 1] ?? 0);
  return counts;
}

/** Where bins meet, as the least float32 that is not below: a float32 is in the same bin as with float64. */
export function binEdges(low: number, high: number, bins: number): Float32Array<ArrayBuffer> {
  const edges = new Float32Array(bins - 1);
  const bits = new Int32Array(edges.buffer);
  const step = (high - low) / bins;
  for (let k = 0; k < edges.length; k++) {
    const edge = low + (k + 1) * step;
    edges[k] = edge;
    // The next float32 above: of larger magnitude for a positive one, of smaller for a negative one.
    if ((edges[k] ?? 0) < edge) bits[k] = (bits[k] ?? 0) + (edge > 0 ? 1 : -1);
  }
  return edges;
}

/** What the reductions of channels say of all of them, before anything is counted. */
export function valueSpan(channels: readonly ChannelReduction[]) {
  let [low, high, total, zeros] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0];
  for (const one of channels) {
    if (one.count === 0) continue;
    low = Math.min(low, one.low);
    high = Math.max(high, one.high);
    total += one.count - one.zeros;
    zeros += one.zeros;
  }
  return { low, high, total, zeros };
}

/** Bins from how many values there are from each inner edge on; without edges all are in the first. */
export function histogramFromCounts(
  { low, high, total, zeros }: ReturnType<typeof valueSpan>,
  from: readonly number[],
  bins: number,
): Histogram {
  const upTo = (k: number) => from[k] ?? 0;
  const counts = Array.from({ length: bins }, (_, k) => (k > 0 ? upTo(k - 1) : total) - upTo(k));
  return { low, high, zeros, counts };
}
