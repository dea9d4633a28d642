// The contribution of each input channel to a sum: sorted bars, one of which is selected for the tap-by-tap display.

import { formatExact, formatInteger, formatShort } from "../../number_format.ts";
import { NonFiniteBar } from "../bar_chart.tsx";
import { pointerOffset, pointerPosition, useViews } from "../context.ts";
import { argsortDescending, maxAbs } from "../layout.ts";
import { NumberField } from "../number_field.tsx";
import { Num } from "./number.tsx";

/** Channels sorted by absolute contribution, largest first. */
export const rankContributions = (contributions: Float64Array): number[] =>
  argsortDescending(
    Array.from(contributions, (one) => (Number.isNaN(one) ? Infinity : Math.abs(one))),
  );

export function Contributions(props: {
  contributions: Float64Array;
  /** The index of the first channel. */
  firstChannel: number;
  /** The noun for one term: "channel", "input". */
  noun: string;
  /** The text after "All 64 channels". */
  text: string;
  chosen: number;
  /** Sort by value, highest first, instead of by absolute value. */
  sortsByValue?: boolean;
  /** Absent if the user cannot select a term. */
  choose?: (k: number) => void;
  width: number;
}) {
  const { contributions, firstChannel, noun, text, chosen, sortsByValue, choose, width } = props;
  const views = useViews();
  const order = sortsByValue
    ? argsortDescending([...contributions])
    : rankContributions(contributions);
  const count = contributions.length;
  const along = Math.max(4, Math.min(32, Math.floor(width / count)));
  const shown = order.slice(0, Math.max(1, Math.floor(width / along)));
  const rest = order.slice(shown.length).reduce((sum, k) => sum + (contributions[k] ?? 0), 0);
  const most = maxAbs(contributions) || 1;
  const half = 44;
  const value = (k: number): number => contributions[k] ?? Number.NaN;
  const spoken = shown
    .slice(0, 8)
    .map((k) => `${noun} ${firstChannel + k} ${formatShort(value(k))}`);
  const under = (event: MouseEvent): number | undefined => {
    return shown[
      Math.floor(pointerOffset(event.currentTarget as Element, event, views).left / along)
    ];
  };
  const point = (event: PointerEvent): void => {
    const k = under(event);
    views.tooltip.value =
      k === undefined
        ? null
        : {
            title: formatExact(value(k)),
            text: `from ${noun} ${firstChannel + k}`,
            ...pointerPosition(event, views),
          };
  };
  const leave = (): void => {
    views.tooltip.value = null;
  };
  const click = (event: MouseEvent): void => {
    const k = under(event);
    if (k !== undefined) choose?.(k);
  };
  const all =
    shown.length < count
      ? `The ${formatInteger(shown.length)} of ${formatInteger(count)}`
      : `All ${formatInteger(count)}`;
  return (
    <section class="nbg-block">
      <header>
        <h3>
          {all} {noun}s <span class="nbg-second">{text}, largest first</span>
        </h3>
        {choose && (
          <NumberField
            label={`Shown for ${noun}`}
            low={firstChannel}
            high={firstChannel + count - 1}
            value={firstChannel + chosen}
            setValue={(index) => choose(index - firstChannel)}
          />
        )}
      </header>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the number field above is the keyboard's way */}
      <svg
        class={choose ? "nbg-bars nbg-clickable" : "nbg-bars"}
        width={along * shown.length}
        height={2 * half + 1}
        role="img"
        aria-label={`Contribution of each ${noun}; largest: ${spoken.join(", ")}`}
        onPointerMove={point}
        onPointerDown={point}
        onPointerLeave={leave}
        onClick={click}
      >
        {shown.map((k, i) => {
          const size = (Math.abs(value(k)) / most) * (half - 4);
          const slot = { x: i * along, width: along - (along > 5 ? 1.5 : 0.5) };
          return (
            <g key={k} data-term={firstChannel + k} data-value={String(value(k))}>
              {k === chosen && (
                <rect
                  class="nbg-behind"
                  x={i * along - 0.5}
                  width={along}
                  y={0}
                  height={2 * half}
                />
              )}
              {Number.isFinite(value(k)) ? (
                <rect
                  class={value(k) < 0 ? "nbg-negative" : "nbg-positive"}
                  {...slot}
                  y={value(k) < 0 ? half : half - size}
                  height={Math.max(size, value(k) === 0 ? 0 : 0.5)}
                />
              ) : (
                <NonFiniteBar number={value(k)} {...slot} y={4} height={2 * half - 8} />
              )}
            </g>
          );
        })}
        <line class="nbg-zero" x1={0} x2={along * shown.length} y1={half} y2={half} />
      </svg>
      <p class="nbg-second">
        {noun} {firstChannel + chosen}: {formatShort(value(chosen))}
        {shown.length < count && (
          <>
            {" · "}sum of the other {formatInteger(count - shown.length)}: <Num value={rest} />
          </>
        )}
      </p>
    </section>
  );
}
