// The colours that numbers are drawn in.
import { type Signal, signal } from "@preact/signals";
import type { COLOR_RANGE_MODES } from "../messages.ts";
import type { ColorMapName } from "../plan/runtime.ts";

/**
 * The source of the colour map's limits: each channel, the whole layer, or the layer's limits when "fixed" was chosen.
 */
export type RangeMode = (typeof COLOR_RANGE_MODES)[number];
/** The smallest and largest value of a layer's colour range. */
export interface ColorLimits {
  readonly low: number;
  readonly high: number;
}

/** The user's range for a picture: the minimum and maximum of its own values, or two numbers. */
export type ImageRangeChoice = "layer" | readonly [low: number, high: number];

export interface ColorState {
  readonly colormap: Signal<ColorMapName>;
  readonly rangeMode: Signal<RangeMode>;
  /** Whether sequential colour maps also span −max to max. */
  readonly isSymmetric: Signal<boolean>;
  /** For the range "fixed": each layer's limits, stored since that was chosen. */
  readonly colorLimits: Signal<ReadonlyMap<string, ColorLimits>>;
  /** The black and white levels of pictures by their values' keys, if the user chose them. */
  readonly imageRanges: Signal<Readonly<Record<string, ImageRangeChoice>>>;
  /** Whether ranges stay fixed while the input is live; else they follow it slowly. */
  readonly areRangesFrozen: Signal<boolean>;
}

export const colorState = (): ColorState => ({
  colormap: signal("signed"),
  rangeMode: signal("layer"),
  isSymmetric: signal(false),
  colorLimits: signal(new Map()),
  imageRanges: signal({}),
  areRangesFrozen: signal(false),
});
