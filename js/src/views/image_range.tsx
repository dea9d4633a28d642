// A control for the black and white points of an image, with the count of values beyond them.

import { displayStyle } from "../network/display_kind.ts";
import { formatFixed, formatInteger, formatShort } from "../number_format.ts";
import { baseKey } from "../plan/derived_values.ts";
import { IMAGE_RANGES, type Value } from "../plan/schema.ts";
import type { ColorLimits, ImageRangeChoice } from "../state/colors.ts";
import { useClippedCount, useStatistics, useViews } from "./context.ts";
import { imageLimits } from "./image_limits.ts";
import { useColorRange } from "./maps.tsx";

/** "0 to 1", "−0.06 to 1.16". */
function limitsText(low: number, high: number): string {
  const text = [low, high].every(Number.isInteger)
    ? (end: number) => formatFixed(end, 0)
    : formatShort;
  return `${text(low)} to ${text(high)}`;
}

const colorKind = (value: Value): string =>
  displayStyle(value).drawMode === "rgb" ? "RGB" : "grey";

interface ImageRangeProps {
  value: Value;
  /** The value whose range is selected, if the picture combines several; by default `value`. */
  rangeValue?: Value;
  /** Shared black and white points of several pictures; by default the value's own. */
  limits?: ColorLimits | null;
}

/** The text "grey", the range selector and the clipping counts, shown beside every image that is not a thumbnail. */
export function ImageRange(props: ImageRangeProps) {
  const { value, rangeValue = value } = props;
  const range = useColorRange(rangeValue);
  const { low, high } = props.limits ?? range;
  if (displayStyle(value).name === "classes") return <>the most likely class of each pixel</>;
  const ends = low === undefined || high === undefined ? null : { low, high };
  return (
    <>
      {colorKind(value)} <RangeSelect value={rangeValue} limits={ends} />
      {ends && <ClippingNote value={value} limits={ends} />}
    </>
  );
}

function RangeSelect({ value, limits }: { value: Value; limits: ColorLimits | null }) {
  const { state } = useViews();
  const statistics = useStatistics(value);
  const key = baseKey(value.key);
  const choice = state.imageRanges.value[key];
  const usual = imageLimits(value, statistics?.layer, undefined);
  const held = Array.isArray(choice) ? (choice as readonly [number, number]) : null;
  const known: (readonly [number, number])[] = IMAGE_RANGES.map((ends) => ends);
  if (held !== null && !known.some((limits) => `${limits}` === `${held}`)) known.push(held);
  const summary = statistics?.layer;
  const choose = (word: string): void => {
    const { [key]: _, ...others } = state.imageRanges.peek();
    const chosen: ImageRangeChoice | undefined =
      word === "" ? undefined : word === "layer" ? "layer" : (JSON.parse(word) as [number, number]);
    state.imageRanges.value = chosen === undefined ? others : { ...others, [key]: chosen };
  };
  const own: readonly [number, number] | null =
    summary !== undefined && summary.min < summary.max ? [summary.min, summary.max] : null;
  return (
    <label
      class="nbg-image-range"
      title="Values shown as black and white. Values outside are clipped and marked with dots"
    >
      <span aria-hidden="true">{limits === null ? "…" : limitsText(limits.low, limits.high)}</span>
      <select
        aria-label={`Values of ${key} shown as black and white`}
        value={choice === undefined ? "" : choice === "layer" ? "layer" : JSON.stringify(choice)}
        onChange={(event) => choose(event.currentTarget.value)}
      >
        <option value="">
          {usual === null ? "Default" : `Default, ${limitsText(usual.low, usual.high)}`}
        </option>
        {known.map(([from, to]) => (
          <option key={`${from} ${to}`} value={JSON.stringify([from, to])}>
            {limitsText(from, to)}
          </option>
        ))}
        <option value="layer">Its minimum and maximum</option>
        {own !== null && JSON.stringify(own) !== JSON.stringify(held) && (
          <option value={JSON.stringify(own)}>{`Fixed at ${limitsText(...own)}`}</option>
        )}
      </select>
    </label>
  );
}

/** " · 12 above, 3 below": the number of elements of the current example that the range clips; empty if none. */
function ClippingNote({ value, limits }: { value: Value; limits: ColorLimits }) {
  const { network } = useViews();
  const found = useClippedCount(value, limits.low, limits.high);
  if (network.value === null || found === null || found.above + found.below === 0) return null;
  const words = [
    [found.above, "above"],
    [found.below, "below"],
  ] as const;
  return (
    <span
      class="nbg-clipped"
      data-above={found.above}
      data-below={found.below}
      title="Values outside the range: black dots mark values above it, white dots values below it"
    >
      {" · "}
      {words
        .filter(([count]) => count > 0)
        .map(([count, word]) => `${formatInteger(count)} ${word}`)
        .join(", ")}
    </span>
  );
}
