// The cost of each layer: its measured time, or its share of the run's time, estimated from the reads of its passes.

import { formatBytes, formatCount, formatDuration } from "../../number_format.ts";
import { predictPassTimes } from "../../plan/run_slices.ts";
import type { PlanHeader } from "../../plan/schema.ts";
import type { CostMetric, LayerTimes } from "../../state.ts";

export interface LayerCost {
  /** Null before the first run. */
  readonly ms: number | null;
  readonly measured: boolean;
  /** The number of passes of its own; 0 if another layer's passes compute it too, or if it needs no computation. */
  readonly passes: number;
  readonly parameters: number;
  readonly macs: number;
  readonly bytes: number;
}

/** The costs of all layers; the last entry is for passes of no layer. `total` is the time of a run. */
export function layerCosts(
  plan: PlanHeader,
  profile: LayerTimes | null,
  total: number | null,
): LayerCost[] {
  const shares = new Map<number, number>();
  const passes = new Map<number, number>();
  // A run does not include on-demand sections, such as a training step.
  const run = plan.sections
    .filter(({ on_demand }) => !on_demand)
    .flatMap(({ first, count }) => plan.passes.slice(first, first + count));
  const predicted = predictPassTimes(run, total ?? 0);
  for (const [k, { layer }] of run.entries()) {
    shares.set(layer, (shares.get(layer) ?? 0) + (predicted[k] ?? 0));
    passes.set(layer, (passes.get(layer) ?? 0) + 1);
  }
  return [...plan.layers.keys(), -1].map((k) => {
    const time = profile?.get(k);
    const { parameters = 0, macs = 0, bytes = 0 } = plan.layers[k] ?? {};
    return {
      ms: time?.ms ?? (total === null ? null : (shares.get(k) ?? 0)),
      measured: time !== undefined,
      passes: passes.get(k) ?? 0,
      parameters,
      macs,
      bytes,
    };
  });
}

export const COSTS: readonly (readonly [CostMetric, string])[] = [
  ["ms", "Time"],
  ["parameters", "Parameters"],
  ["macs", "MACs"],
  ["bytes", "Memory"],
];

/** A cost as text. */
export function costText(cost: CostMetric, of: LayerCost): string {
  if (cost === "ms")
    return of.ms === null ? "" : of.ms < 0.005 ? "< 0.01 ms" : formatDuration(of.ms);
  return cost === "bytes" ? formatBytes(of.bytes) : formatCount(of[cost]);
}
