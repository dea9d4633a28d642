// Black and white points of a picture: from the network's declared range, or from the data; same rules as image_limits
// in pictures/feature_maps.py.
import type { Summary } from "../plan/runtime.ts";
import { IMAGE_RANGES, type Value } from "../plan/schema.ts";
import type { ColorLimits, ImageRangeChoice } from "../state/colors.ts";

/**
 * The unit range tolerates noise of a quarter beyond its ends (SLACK); a maximum must exceed BYTES_FROM to count as
 * bytes.
 */
const [SLACK, BULK, BYTES_FROM] = [0.25, 0.5, 16];

/** The limits that the network declares for a value; null if it declares none. */
export function declaredLimits({
  value_range: [low, high],
}: Pick<Value, "value_range">): ColorLimits | null {
  return low === null || high === null ? null : { low, high };
}

/** The standard range that a picture's data probably has; null for the range of the data itself. */
function inferredLimits({ min, max, mean, std }: Summary): ColorLimits | null {
  const [unit, signed, bytes] = IMAGE_RANGES.map(([low, high]) => ({ low, high })) as [
    ColorLimits,
    ColorLimits,
    ColorLimits,
  ];
  const slack = SLACK * bytes.high;
  if (min >= -SLACK && max <= 1 + SLACK) return unit;
  if (min >= signed.low && max <= signed.high) return signed;
  if (max > BYTES_FROM && max <= bytes.high + slack && min >= -slack) return bytes;
  return mean - std >= -BULK && mean + std <= 1 + BULK ? unit : null;
}

/** Black and white points from the minimum and maximum. If both are equal, 0 is one of the limits, as in own_limits. */
export function dataLimits({ low, high }: ColorLimits): ColorLimits {
  if (low < high) return { low, high };
  return low < 0 ? { low, high: 0 } : { low: 0, high: low > 0 ? low : 1 };
}

/** Black and white points of a picture; null if they depend on data that is not yet known. */
export function imageLimits(
  value: Pick<Value, "value_range">,
  summary: Summary | undefined,
  choice: ImageRangeChoice | undefined,
): ColorLimits | null {
  if (choice !== undefined && choice !== "layer") return { low: choice[0], high: choice[1] };
  const known = choice === undefined ? declaredLimits(value) : null;
  if (known !== null) return known;
  if (summary === undefined || Number.isNaN(summary.min)) return null;
  const own = dataLimits({ low: summary.min, high: summary.max });
  return choice === undefined ? (inferredLimits(summary) ?? own) : own;
}

/** Whether a value's elements are shares of 1, such as a softmax output: its bars go from 0 to 1. */
export function hasUnitRange(value: Pick<Value, "value_range">): boolean {
  const ends = declaredLimits(value);
  return ends !== null && ends.low === 0 && ends.high === 1;
}
