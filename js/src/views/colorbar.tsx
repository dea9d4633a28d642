// A legend: the colour map's gradient between the values at its ends.

import type { LegendProps } from "../features/feature.ts";
import { displayStyle } from "../network/display_kind.ts";
import { formatShort } from "../number_format.ts";
import { cssGradient } from "./colors.ts";
import { useViews } from "./context.ts";

/** The limits of a colour map for values from `low` to `high`, and the part of the map that is used. */
export function colorMapLimits(low: number, high: number, signed: boolean, symmetric = false) {
  const most = Math.max(Math.abs(low), Math.abs(high));
  if (!signed && symmetric) return { low: -most, high: most, from: 0, to: 1 };
  if (!signed) return { low, high, from: 0, to: 1 };
  // A layer without negative values uses only the positive half, and so does its legend.
  if (low >= 0) return { low: 0, high: most, from: 0.5, to: 1 };
  if (high <= 0) return { low: -most, high: 0, from: 0, to: 0.5 };
  return { low: -most, high: most, from: 0, to: 1 };
}

/** The gradient, with the values at its ends. */
export function Colorbar({ value, statistics, channel, colorLimits }: LegendProps) {
  const { state, theme } = useViews();
  if (statistics === null) return null;
  const map = state.colormap.value;
  const own = state.rangeMode.value === "channel";
  const one = own && typeof channel === "number" ? statistics.channels[channel] : undefined;
  const summary = one ?? statistics.layer;
  if (Number.isNaN(summary.min)) return <span class="nbg-legend">no finite value</span>;
  const fixed =
    state.rangeMode.value === "fixed" ? state.colorLimits.value.get(value.key) : undefined;
  const { low: least, high: most } = colorLimits ??
    fixed ?? { low: summary.min, high: summary.max };
  const curves = displayStyle(value).name === "curves";
  // A curve's range includes zero.
  const ends = curves ? [Math.min(0, least), Math.max(0, most)] : [least, most];
  const signed = map === "signed" && !curves;
  const symmetric = state.isSymmetric.value;
  const { low, high, from, to } = colorMapLimits(ends[0] ?? 0, ends[1] ?? 0, signed, symmetric);
  const words = own && one === undefined;
  const text = (number: number, word: string) =>
    words && number !== 0 ? word : formatShort(number);
  const lowWord = signed || symmetric ? "−max" : "min";
  if (curves) {
    return (
      <span class="nbg-legend">
        {words && <span class="nbg-second">own range each</span>}
        <span>
          {text(low, lowWord)} to {text(high, "max")} from bottom to top
        </span>
      </span>
    );
  }
  if (low === high && !words) return <span class="nbg-legend">{formatShort(low)} everywhere</span>;
  return (
    <span class="nbg-legend">
      {words && <span class="nbg-second">own range each</span>}
      <span>{text(low, lowWord)}</span>
      <span class="nbg-gradient" style={{ background: cssGradient(map, theme.value, from, to) }} />
      <span>{text(high, "max")}</span>
    </span>
  );
}
