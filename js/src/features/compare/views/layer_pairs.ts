// The compared layer pairs, their table rows and colour limits; no DOM, no GPU.

import type { Network } from "../../../network/network.ts";
import { formatPercent, formatShort } from "../../../number_format.ts";
import type { ColorRange, Statistics } from "../../../plan/runtime.ts";
import type { LayerPair } from "../../../plan/schema.ts";
import type { Selection } from "../../../state.ts";

/** How much a layer of B differs from A in one example. */
export interface LayerDifference {
  readonly mean: number;
  readonly max: number;
  /** The mean divided by the mean absolute value of A. */
  readonly relative: number;
}

/** One pair for each difference: an input's or a layer's if there is one, otherwise an output's, then a module's. */
export function listedPairs(network: Network): readonly LayerPair[] {
  const kinds = ["input", "layer", "output", "module"];
  const place = (pair: LayerPair) => kinds.indexOf(network.values.get(pair.a)?.kind ?? "");
  const pairs = [...new Set(network.comparisonPairs.values())].sort((a, b) => place(a) - place(b));
  return pairs.filter((pair, i) => pairs.findIndex(({ row }) => row === pair.row) === i);
}

/** The pair of the selected layer (of A, B or the difference); otherwise the output's pair. */
export function selectedPair(network: Network, selected: Selection | null): LayerPair | undefined {
  const chosen = network.comparisonPairs.get(selected?.layer ?? "");
  if (chosen !== undefined) return chosen;
  const output = network.comparisonPairs.get(network.outputs[0]?.key ?? "");
  const listed = listedPairs(network);
  return listed.find(({ row }) => row === output?.row) ?? listed.at(-1);
}

/** A pair's row in the comparison table for one example. */
export function layerDifference(
  table: Float32Array,
  { row }: LayerPair,
  batchSize: number,
  example: number,
): LayerDifference {
  const start = (table.length / batchSize) * example + 3 * row;
  const number = (k: number) => table[start + k] ?? Number.NaN;
  const [mean, own] = [number(0), number(2)];
  return { mean, max: number(1), relative: mean === 0 && own === 0 ? 0 : mean / own };
}

/** The colour limits shared by A and B, for a channel or the layer; null if no number is finite. */
export function sharedLimits(
  a: Statistics,
  b: Statistics,
  channel: number | null,
): { low: number; high: number } | null {
  const both = [a, b].map((one) => (channel === null ? one.layer : one.channels[channel]));
  const [low, high] = [
    Math.min(...both.map((one) => one?.min ?? Number.NaN).filter(Number.isFinite)),
    Math.max(...both.map((one) => one?.max ?? Number.NaN).filter(Number.isFinite)),
  ];
  return low <= high ? { low, high } : null;
}

export const fixedRange = (limits: { low: number; high: number } | null): ColorRange | undefined =>
  limits === null ? undefined : { mode: "fixed", ...limits };

/** Channels sorted by the root mean square of their difference, largest first. */
export function rankByDifference({ channels }: Statistics): number[] {
  const size = channels.map(({ mean, std }) => (Number.isNaN(mean) ? 0 : Math.hypot(mean, std)));
  return size.map((_, i) => i).sort((i, j) => (size[j] ?? 0) - (size[i] ?? 0) || i - j);
}

/** A relative difference as text: "12 %"; from ten times up "41 ×". */
export const relativeText = (ratio: number): string =>
  ratio < 10 ? formatPercent(ratio, ratio > 0 && ratio < 0.1 ? 1 : 0) : `${formatShort(ratio)} ×`;
