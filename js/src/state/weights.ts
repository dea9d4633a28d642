// Which weights are shown, where these are others than Python offered.
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { WeightTextures } from "../engine/types.ts";

export interface WeightState {
  /** In the place of those that Python offered, by texture. */
  readonly weightOverrides: Signal<WeightTextures | undefined>;
  /** The weights of an earlier step, which views show instead of the current ones; null for none. */
  readonly earlierWeights: Signal<WeightTextures | null>;
  /** Whether something in this page changes the weights: not, not at the moment, or now. */
  readonly weightActivity: ReadonlySignal<"" | "resting" | "changing">;
}

export const weightState = (): WeightState => ({
  weightOverrides: signal(undefined),
  earlierWeights: signal(null),
  weightActivity: signal(""),
});
