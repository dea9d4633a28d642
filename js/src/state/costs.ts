// The costs of layers.
import { type Signal, signal } from "@preact/signals";
import type { LayerTime } from "../plan/runtime.ts";

/** Milliseconds, or a quantity from the layer table. */
export type CostMetric = "ms" | "parameters" | "macs" | "bytes";

/** Each layer's time measured alone; index -1 holds passes without a layer. */
export type LayerTimes = ReadonlyMap<number, LayerTime>;

export interface CostState {
  /** The metric of the bars below stages. */
  readonly costMetric: Signal<CostMetric>;
  /** The layer times measured so far; null until a profile is requested. */
  readonly layerTimes: Signal<LayerTimes | null>;
}

export const costState = (): CostState => ({ costMetric: signal("ms"), layerTimes: signal(null) });
