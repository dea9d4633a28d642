// What may be wrong with a channel: nothing comes through, or it stands at an end of its activation.
import type { Summary } from "../plan/runtime.ts";
import type { Layer } from "../plan/schema.ts";

/** The ends of a bounded activation. */
export type ActivationBounds = readonly [number, number];
export type Flag = "dead" | "sat";

/** What the captions' words mean. */
export const FLAG_TEXT: Readonly<Record<Flag, string>> = {
  dead: "dead: zero everywhere in this picture",
  sat: "saturated: everywhere within 1 % of an end of the activation’s range, in this picture",
};

const SATURATION_TOLERANCE = 0.01;

/** The ends of what a layer's activation gives; null where one of them is open. */
export function boundsOf(layer: Layer | undefined): ActivationBounds | null {
  const [low, high] = layer?.bounds ?? [null, null];
  return low === null || high === null ? null : [low, high];
}

/** "dead" for a channel that is zero everywhere, "sat" for one that is all at an end of its range. */
export function flagOf(summary: Summary, bounds: ActivationBounds | null): Flag | null {
  if (summary.zeros === 1) return "dead";
  if (bounds === null) return null;
  const [low, high] = bounds;
  const near = SATURATION_TOLERANCE * (high - low);
  return summary.max <= low + near || summary.min >= high - near ? "sat" : null;
}
