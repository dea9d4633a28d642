// Black and white of a picture: what the network says, or its numbers; as image_limits in pictures/feature_maps.py has it.
import type { Summary } from "../plan/runtime.ts";
import { IMAGE_RANGES, type Value } from "../plan/schema.ts";
import type { ColorLimits, ImageRangeChoice } from "../state/colors.ts";

/** Noise may leave the range by a quarter of it, and what is but a little above 1 isn't of bytes. */
const [SLACK, BULK, BYTES_FROM] = [0.25, 0.5, 16];

/** The limits that the network says a value has; null where it doesn't. */
export function declaredLimits({
  value_range: [low, high],
}: Pick<Value, "value_range">): ColorLimits | null {
  return low === null || high === null ? null : { low, high };
}

/** The range that a picture's numbers are likely to be of; null for its own. */
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

/** Black and white of a picture by its least and greatest number; of equal numbers 0 is one, as own_limits has it. */
export function dataLimits({ low, high }: ColorLimits): ColorLimits {
  if (low < high) return { low, high };
  return low < 0 ? { low, high: 0 } : { low: 0, high: low > 0 ? low : 1 };
}

/** Black and white of a picture; null until its numbers are known, where these decide. */
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

/** Whether a value's numbers are shares of 1, as behind a softmax: its bars go from 0 to 1. */
export function hasUnitRange(value: Pick<Value, "value_range">): boolean {
  const ends = declaredLimits(value);
  return ends !== null && ends.low === 0 && ends.high === 1;
}
