// Histogram bins: their edges and counts; float64, no GL.

import type { Histogram } from "../plan/runtime.ts";
import type { ChannelReduction } from "./summary.ts";

/** The counts that a device computes: for each edge, the finite non-zero values at or above it. */
export function countAboveEdges(values: Float32Array, edges: Float32Array): number[] {
  const counts = new Array<number>(edges.length).fill(0);
  for (const value of values) {
    if (value === 0 || !Number.isFinite(value)) continue;
    // Edges increase: binary search for the number of edges up to the value.
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

/**
 * The inner edges of the bins. Each is rounded up to a float32, so that a float32 value falls into the same bin as in
 * float64.
 */
export function binEdges(low: number, high: number, binCount: number): Float32Array<ArrayBuffer> {
  const edges = new Float32Array(binCount - 1);
  const bits = new Int32Array(edges.buffer);
  const step = (high - low) / binCount;
  for (let k = 0; k < edges.length; k++) {
    const edge = low + (k + 1) * step;
    edges[k] = edge;
    // The next float32 above: larger magnitude if positive, smaller if negative.
    if ((edges[k] ?? 0) < edge) bits[k] = (bits[k] ?? 0) + (edge > 0 ? 1 : -1);
  }
  return edges;
}

/** Range and counts over all channels, from the reductions of the channels, before any histogram is counted. */
export function combineChannelRanges(channels: readonly ChannelReduction[]) {
  let [low, high, total, zeros] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0];
  for (const one of channels) {
    if (one.finiteCount === 0) continue;
    low = Math.min(low, one.low);
    high = Math.max(high, one.high);
    total += one.finiteCount - one.zeros;
    zeros += one.zeros;
  }
  return { low, high, total, zeros };
}

/**
 * A histogram from the number of values at or above each inner edge; without edges, all values are in the first bin.
 */
export function histogramFromCounts(
  { low, high, total, zeros }: ReturnType<typeof combineChannelRanges>,
  countsAboveEdges: readonly number[],
  binCount: number,
): Histogram {
  const upTo = (k: number) => countsAboveEdges[k] ?? 0;
  const counts = Array.from(
    { length: binCount },
    (_, k) => (k > 0 ? upTo(k - 1) : total) - upTo(k),
  );
  return { low, high, zeros, counts };
}
