// Counts the values of a picture that its range clips: those that 8 bits would change.

import type { ClippedCounts } from "../plan/runtime.ts";
import { CLIPPED_FRACTION } from "../plan/schema.ts";
import type { combineChannelRanges } from "../statistics/histogram_bins.ts";

interface RangeLimits {
  readonly low: number;
  readonly high: number;
}

/** Values below `low` or above `high` of the result count as clipped and are marked. */
export function clippingLimits({ low, high }: RangeLimits): RangeLimits {
  const slack = CLIPPED_FRACTION * (high - low);
  return { low: Math.fround(low - slack), high: Math.fround(high + slack) };
}

/** The next larger float32. */
function nextFloat(value: number): number {
  const found = new Float32Array([value]);
  const bits = new Int32Array(found.buffer);
  bits[0] = (bits[0] ?? 0) + (value >= 0 ? 1 : -1);
  return found[0] ?? value;
}

/** Count edges: values from the first one on are not too small; values from the second one on are too large. */
export function clippingCountEdges(range: RangeLimits): Float32Array {
  const { low, high } = clippingLimits(range);
  return new Float32Array([low, nextFloat(high)]);
}

/**
 * The clipped counts, from the number of values at or above each edge. Those numbers exclude zeros, which are added
 * here.
 */
export function clippedCounts(
  range: RangeLimits,
  { total, zeros }: Pick<ReturnType<typeof combineChannelRanges>, "total" | "zeros">,
  [fromLow = 0, fromHigh = 0]: readonly number[],
): ClippedCounts {
  const { low, high } = clippingLimits(range);
  return {
    below: total - fromLow + (low > 0 ? zeros : 0),
    above: fromHigh + (high < 0 ? zeros : 0),
  };
}
