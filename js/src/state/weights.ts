// Which weights are shown, where these are others than Python offered.
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { WeightRows } from "../engine/types.ts";

export interface WeightState {
  /** In the place of those that Python offered, by texture. */
  readonly rows: Signal<WeightRows | undefined>;
  /** The weights of an earlier step, which views show instead of the current ones; null for none. */
  readonly earlier: Signal<WeightRows | null>;
  /** Whether something in this page changes the weights: not, not at the moment, or now. */
  readonly claim: ReadonlySignal<"" | "resting" | "changing">;
}

export const weightState = (): WeightState => ({
  rows: signal(undefined),
  earlier: signal(null),
  claim: signal(""),
});
