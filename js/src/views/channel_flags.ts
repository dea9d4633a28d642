// Flags for suspicious channels: zero everywhere, or saturated at an end of the activation's range.
import type { Summary } from "../plan/runtime.ts";
import type { Layer } from "../plan/schema.ts";

/** Lower and upper bound of an activation. */
export type ActivationBounds = readonly [number, number];
export type ChannelFlag = "dead" | "sat";

/** Explanations of the flags in captions. */
export const FLAG_TEXT: Readonly<Record<ChannelFlag, string>> = {
  dead: "dead: zero everywhere in this picture",
  sat: "saturated: everywhere within 1 % of an end of the activation’s range, in this picture",
};

const SATURATION_TOLERANCE = 0.01;

/** The bounds of a layer's activation; null if it is unbounded on a side. */
export function activationBounds(layer: Layer | undefined): ActivationBounds | null {
  const [low, high] = layer?.bounds ?? [null, null];
  return low === null || high === null ? null : [low, high];
}

/** "dead" for a channel that is zero everywhere, "sat" for one whose values are all near one end of the range. */
export function flagOf(summary: Summary, bounds: ActivationBounds | null): ChannelFlag | null {
  if (summary.zeroFraction === 1) return "dead";
  if (bounds === null) return null;
  const [low, high] = bounds;
  const near = SATURATION_TOLERANCE * (high - low);
  return summary.max <= low + near || summary.min >= high - near ? "sat" : null;
}
