// A vector's elements as selectable rows: index, bar, value.
import { formatExact, formatShort } from "../../number_format.ts";
import type { Value } from "../../plan/schema.ts";
import { NonFiniteBar, useExampleValues } from "../bar_chart.tsx";
import { useViews } from "../context.ts";
import { hasUnitRange } from "../image_limits.ts";
import { maxAbs } from "../layout.ts";

const BAR_SIZE = { width: 72, height: 12 };

export function ElementRows(props: {
  value: Value;
  /** In display order. */
  channels: readonly number[];
  selectedChannel: number | null;
}) {
  const { value, channels, selectedChannel } = props;
  const { state, classNames } = useViews();
  const called = classNames.value(value.key);
  const values = useExampleValues(value);
  const shares = hasUnitRange(value);
  const most = shares || values === null ? 1 : maxAbs(values) || 1;
  return (
    <div class="nbg-elements" role="group" aria-label={`Values of ${value.key}`}>
      {channels.map((channel) => (
        <button
          type="button"
          key={channel}
          class="nbg-element"
          data-of={value.key}
          data-channel={channel}
          aria-pressed={channel === selectedChannel}
          aria-label={`value ${[channel, called[channel]].filter((one) => one !== undefined && one !== "").join(", ")}: ${formatExact(values?.[channel] ?? Number.NaN)}`}
          tabIndex={channel === selectedChannel ? 0 : -1}
          onClick={() => {
            state.comparedChannels.value = null;
            state.selected.value = { layer: value.key, channel };
          }}
        >
          <span>{channel}</span>
          <ElementBar number={values?.[channel] ?? 0} maxAbsValue={most} isUnitRange={shares} />
          <strong>{values === null ? "…" : formatShort(values[channel] ?? Number.NaN)}</strong>
          {called[channel] && <span class="nbg-class">{called[channel]}</span>}
        </button>
      ))}
    </div>
  );
}

/** A bar to either side of zero; for shares of 1, zero is at the left. */
function ElementBar({
  number,
  maxAbsValue,
  isUnitRange,
}: {
  number: number;
  maxAbsValue: number;
  isUnitRange: boolean;
}) {
  const { width, height } = BAR_SIZE;
  const zero = isUnitRange ? 0 : width / 2;
  const size = Math.min(1, Math.abs(number) / maxAbsValue) * (width - zero);
  return (
    <svg class="nbg-bars" width={width} height={height} aria-hidden="true">
      {Number.isFinite(number) ? (
        <rect
          class={number >= 0 ? "nbg-positive" : "nbg-negative"}
          x={number >= 0 ? zero : zero - size}
          y={1}
          width={size}
          height={height - 2}
        />
      ) : (
        <NonFiniteBar number={number} x={0} y={1} width={width} height={height - 2} />
      )}
      <line class="nbg-zero" x1={zero} x2={zero} y1={0} y2={height} />
    </svg>
  );
}
