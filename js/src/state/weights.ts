// The displayed weights, if they differ from those that Python sent.
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { WeightDataByTexture } from "../engine/types.ts";

export interface WeightState {
  /** Replacements for weights from Python, by texture. */
  readonly weightOverrides: Signal<WeightDataByTexture | undefined>;
  /** The weights of an earlier step, displayed instead of the current ones; null for none. */
  readonly earlierWeights: Signal<WeightDataByTexture | null>;
  /** Whether something in this page changes the weights: no (""), paused ("resting"), or now ("changing"). */
  readonly weightActivity: ReadonlySignal<"" | "resting" | "changing">;
}

export const weightState = (): WeightState => ({
  weightOverrides: signal(undefined),
  earlierWeights: signal(null),
  weightActivity: signal(""),
});
