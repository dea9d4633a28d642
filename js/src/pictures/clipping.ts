// Which numbers of a picture its range clips: those that 8 bits would change.

import type { ClippedCounts } from "../plan/runtime.ts";
import { CLIPPED } from "../plan/schema.ts";
import type { valueSpan } from "../statistics/histogram_bins.ts";

interface RangeLimits {
  readonly low: number;
  readonly high: number;
}

/** What is less than `low` or more than `high` of the result is clipped by a range, and marked for it. */
export function clippingLimits({ low, high }: RangeLimits): RangeLimits {
  const slack = CLIPPED * (high - low);
  return { low: Math.fround(low - slack), high: Math.fround(high + slack) };
}

/** The least float32 that is larger. */
function nextFloat(value: number): number {
  const found = new Float32Array([value]);
  const bits = new Int32Array(found.buffer);
  bits[0] = (bits[0] ?? 0) + (value >= 0 ? 1 : -1);
  return found[0] ?? value;
}

/** Edges to count at: values from the first one on aren't too small, those from the second one on are too large. */
export function clippingEdges(range: RangeLimits): Float32Array {
  const { low, high } = clippingLimits(range);
  return new Float32Array([low, nextFloat(high)]);
}

/** From how many values there are from each edge on; zeros are not among them. */
export function clippedCounts(
  range: RangeLimits,
  { total, zeros }: Pick<ReturnType<typeof valueSpan>, "total" | "zeros">,
  [fromLow = 0, fromHigh = 0]: readonly number[],
): ClippedCounts {
  const { low, high } = clippingLimits(range);
  return {
    below: total - fromLow + (low > 0 ? zeros : 0),
    above: fromHigh + (high < 0 ? zeros : 0),
  };
}
