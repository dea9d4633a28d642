// The colours that numbers are drawn in.
import { type Signal, signal } from "@preact/signals";
import type { COLOR_RANGES } from "../messages.ts";
import type { ColorMapName } from "../plan/runtime.ts";

/** Whose limits the colour map has: each channel its own, the layer's for all, or those the layer had when "fixed" was chosen. */
export type RangeMode = (typeof COLOR_RANGES)[number];
/** The least and the greatest value that a layer's colours are for. */
export interface ColorLimits {
  readonly low: number;
  readonly high: number;
}

/** What a reader chose for a picture: the least and greatest of its own numbers, or two numbers. */
export type ImageRangeChoice = "layer" | readonly [low: number, high: number];

export interface ColorState {
  readonly colormap: Signal<ColorMapName>;
  readonly rangeMode: Signal<RangeMode>;
  /** Sequential colour maps go from −max to max too. */
  readonly isSymmetric: Signal<boolean>;
  /** For the range "fixed": each layer's limits since that was chosen. */
  readonly colorLimits: Signal<ReadonlyMap<string, ColorLimits>>;
  /** What black and white of pictures are, by the values' keys, where that was chosen. */
  readonly imageRanges: Signal<Readonly<Record<string, ImageRangeChoice>>>;
  /** The ranges stay as they are while the input is live, else follow it slowly. */
  readonly areRangesHeld: Signal<boolean>;
}

export const colorState = (): ColorState => ({
  colormap: signal("signed"),
  rangeMode: signal("layer"),
  isSymmetric: signal(false),
  colorLimits: signal(new Map()),
  imageRanges: signal({}),
  areRangesHeld: signal(false),
});
