// What layers cost.
import { type Signal, signal } from "@preact/signals";
import type { LayerTime } from "../plan/runtime.ts";

/** Milliseconds, and what the layer table says. */
export type Cost = "ms" | "parameters" | "macs" | "bytes";

/** How long each layer took by itself; index -1 is what belongs to none. */
export type Profile = ReadonlyMap<number, LayerTime>;

export interface CostState {
  /** What the bars below stages stand for. */
  readonly cost: Signal<Cost>;
  /** Layers' times, as far as they are measured; null before anybody asked. */
  readonly profile: Signal<Profile | null>;
}

export const costState = (): CostState => ({ cost: signal("ms"), profile: signal(null) });
