// The cost of each layer: its measured time, or its share of the run's time, estimated from the reads of its passes.

import { formatBytes, formatCount, formatDuration } from "../../number_format.ts";
import { predictPassTimes } from "../../plan/run_slices.ts";
import type { PlanHeader } from "../../plan/schema.ts";
import type { CostMetric, LayerTimes } from "../../state.ts";

export interface LayerCost {
  /** Null before the first run. */
  readonly ms: number | null;
  readonly isMeasured: boolean;
  /** The number of passes of its own; 0 if another layer's passes compute it too, or if it needs no computation. */
  readonly passes: number;
  readonly parameters: number;
  readonly macs: number;
  readonly bytes: number;
}

/** The costs of all layers; the last entry is for passes of no layer. `runMs` is the time of a run. */
export function layerCosts(
  plan: PlanHeader,
  layerTimes: LayerTimes | null,
  runMs: number | null,
): LayerCost[] {
  const shares = new Map<number, number>();
  const passes = new Map<number, number>();
  // A run does not include on-demand sections, such as a training step.
  const run = plan.sections
    .filter(({ on_demand }) => !on_demand)
    .flatMap(({ first, count }) => plan.passes.slice(first, first + count));
  const predicted = predictPassTimes(run, runMs ?? 0);
  for (const [k, { layer }] of run.entries()) {
    shares.set(layer, (shares.get(layer) ?? 0) + (predicted[k] ?? 0));
    passes.set(layer, (passes.get(layer) ?? 0) + 1);
  }
  return [...plan.layers.keys(), -1].map((k) => {
    const time = layerTimes?.get(k);
    const { parameters = 0, macs = 0, bytes = 0 } = plan.layers[k] ?? {};
    return {
      ms: time?.ms ?? (runMs === null ? null : (shares.get(k) ?? 0)),
      isMeasured: time !== undefined,
      passes: passes.get(k) ?? 0,
      parameters,
      macs,
      bytes,
    };
  });
}

export const COST_METRIC_ITEMS: readonly (readonly [CostMetric, string])[] = [
  ["ms", "Time"],
  ["parameters", "Parameters"],
  ["macs", "MACs"],
  ["bytes", "Memory"],
];

/** A cost as text. */
export function costText(metric: CostMetric, layerCost: LayerCost): string {
  if (metric === "ms")
    return layerCost.ms === null
      ? ""
      : layerCost.ms < 0.005
        ? "< 0.01 ms"
        : formatDuration(layerCost.ms);
  return metric === "bytes" ? formatBytes(layerCost.bytes) : formatCount(layerCost[metric]);
}
