// What layers cost.
import { type Signal, signal } from "@preact/signals";
import type { LayerTime } from "../plan/runtime.ts";

/** Milliseconds, and what the layer table says. */
export type CostMetric = "ms" | "parameters" | "macs" | "bytes";

/** How long each layer took by itself; index -1 is what belongs to none. */
export type LayerTimes = ReadonlyMap<number, LayerTime>;

export interface CostState {
  /** What the bars below stages stand for. */
  readonly costMetric: Signal<CostMetric>;
  /** Layers' times, as far as they are measured; null before anybody asked. */
  readonly layerTimes: Signal<LayerTimes | null>;
}

export const costState = (): CostState => ({ costMetric: signal("ms"), layerTimes: signal(null) });
