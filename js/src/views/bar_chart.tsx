// Vectors as signed bar charts, and the largest values of a long vector as a list.

import { classText } from "../network/class_names.ts";
import { displayStyle } from "../network/display_kind.ts";
import { formatShort } from "../number_format.ts";
import type { Value } from "../plan/schema.ts";
import {
  type Hover,
  imageIndex,
  pointerPosition,
  useTopk,
  useValues,
  useViews,
  useVisibility,
} from "./context.ts";
import { hasUnitRange } from "./image_limits.ts";
import { argsortDescending, maxAbs, px } from "./layout.ts";

/** The elements of a value for the displayed example. */
export function useExampleValues(value: Value | null): Float32Array | null {
  const { network, state } = useViews();
  const values = useValues(value);
  if (value === null || values === null || network.value === null) return null;
  const [, channels, height, width] = value.nchw;
  const size = channels * height * width;
  const start = imageIndex(value, network.value, state.example.value) * size;
  return values.subarray(start, start + size);
}

/**
 * The elements that a bar chart with room for `maxCount` shows, in index order: all if they fit, else the largest
 * magnitudes.
 */
export function shownElements(
  values: Float32Array | null,
  length: number,
  maxCount: number,
): number[] {
  const all = Array.from({ length }, (_, i) => i);
  if (length <= maxCount || values === null) return all.slice(0, maxCount);
  return argsortDescending(Array.from(values, Math.abs))
    .slice(0, maxCount)
    .sort((a, b) => a - b);
}

interface BarChartProps {
  value: Value;
  /** CSS pixels of the chart. */
  width: number;
  height: number;
  maxBars: number;
  /** Whether bars are vertical, side by side, instead of horizontal, one below the other. */
  upright?: boolean;
  /**
   * The displayed elements, and the magnitude of the longest bar, if they differ from the value's default. For
   * probabilities it is 1.
   */
  channels?: readonly number[];
  magnitudeLimit?: number;
  label: string;
}

/** CSS pixels of a digit, and of a line of numbers, at the smallest font size. */
const DIGIT_WIDTH = 6.6;
const LINE_HEIGHT = 14;
/** CSS pixels of a bar with its index, in a column. */
const BAR_HEIGHT = 12;

/** CSS pixels of a column of bars with their indices. */
export const BAR_COLUMN_WIDTH = 78;

/** A vector as a column of bars with their indices: all elements, or the largest. */
export function BarColumn(props: { value: Value; width: number; height: number; label: string }) {
  const { value, width, height, label } = props;
  const length = value.nchw[1];
  const most = Math.max(1, Math.min(24, Math.floor((height - LINE_HEIGHT) / BAR_HEIGHT)));
  // All elements as thin bars tell more than a selection of thick ones.
  const thin = Math.floor(height / 6);
  const shown = length <= Math.max(most, thin) ? length : most;
  const tall = Math.min(height, shown * BAR_HEIGHT + (shown < length ? LINE_HEIGHT : 0));
  return (
    <BarChart
      value={value}
      width={Math.min(width, BAR_COLUMN_WIDTH)}
      height={tall}
      maxBars={shown}
      label={label}
    />
  );
}

/** The step between labelled bars: the smallest round step at which the labels fit. */
function labelStep(count: number, barSpacing: number, labelSpace: number): number {
  for (const step of [1, 2, 5]) if (barSpacing * step >= labelSpace) return step;
  const least = labelSpace / barSpacing;
  const tens = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((k) => k * tens).find((step) => step >= least) ?? count;
}

/** A vector as bars on both sides of zero, each with its index; probabilities have zero at one end. */
export function BarChart(props: BarChartProps) {
  const { value, width, height, maxBars, upright: isVertical = false, label } = props;
  const views = useViews();
  const values = useExampleValues(value);
  const length = value.nchw[1];
  const shown = props.channels ?? shownElements(values, length, maxBars);
  const shares = hasUnitRange(value);
  const top = shares ? 1 : (props.magnitudeLimit ?? (values === null ? 1 : maxAbs(values) || 1));
  const part = shown.length < length;
  const digits = String(Math.max(0, ...shown)).length * DIGIT_WIDTH + 4;
  const [left, below] = isVertical ? [0, LINE_HEIGHT] : [digits, part ? LINE_HEIGHT : 0];
  const room = { width: width - left, height: height - below };
  const along = (isVertical ? room.width : room.height) / shown.length;
  const across = isVertical ? room.height : room.width;
  // Distance from the low end to zero.
  const zero = shares ? 0 : across / 2;
  const longest = across - zero - 1;
  const thickness = Math.max(1, along > 4 ? along - 1.5 : along * 0.85);
  // A label needs this much space; label every bar if they fit, else every `step`-th.
  const step = labelStep(shown.length, along, isVertical ? digits + 4 : 11);

  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    // A fraction of the size, because the graph scales the chart.
    const at = isVertical
      ? (event.clientX - box.left) / box.width
      : (event.clientY - box.top) / box.height / (room.height / height);
    const channel = shown[Math.floor(at * shown.length)];
    if (channel === undefined) return;
    const hover: Hover = {
      value,
      channels: [channel],
      y: 0,
      x: 0,
      ...pointerPosition(event, views),
      showRank: false,
    };
    views.hover.value = hover;
  };
  const leave = (): void => {
    views.hover.value = null;
  };

  /** The centre of a label, shifted so that no digit is cut off. */
  const inside = (x: number, channel: number): number => {
    const half = 3.3 * `${channel}`.length;
    return Math.max(half, Math.min(width - half, x));
  };

  return (
    <svg
      class={values === null ? "nbg-bars nbg-wait" : "nbg-bars"}
      width={width}
      height={height}
      role="img"
      aria-label={label}
      data-bars={value.key}
      data-channels={shown.length}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={leave}
    >
      {shown.map((channel, i) => {
        const number = values?.[channel] ?? 0;
        const slot = isVertical
          ? { x: i * along, y: 0, width: along, height: across }
          : { x: left, y: i * along, width: across, height: along };
        if (!Number.isFinite(number))
          return <NonFiniteBar key={channel} number={number} {...slot} />;
        const size = Math.min(1, Math.abs(number) / top) * longest;
        const positive = number >= 0;
        const start = i * along + (along - thickness) / 2;
        const at = isVertical ? across - zero : zero;
        const from = positive === isVertical ? at - size : at;
        const name = positive ? "nbg-positive" : "nbg-negative";
        return isVertical ? (
          <rect key={channel} class={name} x={start} y={from} width={thickness} height={size} />
        ) : (
          <rect
            key={channel}
            class={name}
            x={left + from}
            y={start}
            width={size}
            height={thickness}
          />
        );
      })}
      {isVertical ? (
        <line class="nbg-zero" x1={0} x2={width} y1={across - zero} y2={across - zero} />
      ) : (
        <line class="nbg-zero" x1={left + zero} x2={left + zero} y1={0} y2={room.height} />
      )}
      {shown.map((channel, i) =>
        i % step > 0 ? null : isVertical ? (
          <text key={channel} class="nbg-nth" x={inside((i + 0.5) * along, channel)} y={height - 3}>
            {channel}
          </text>
        ) : (
          <text key={channel} class="nbg-nth" x={left / 2} y={(i + 0.5) * along + 4}>
            {channel}
          </text>
        ),
      )}
      {part && !isVertical && (
        <text class="nbg-nth" x={width / 2} y={height - 3}>
          {shown.length} of {length}
        </text>
      )}
    </svg>
  );
}

/** Drawn in place of a bar: NaN hatched, infinity solid, as in the maps. */
export function NonFiniteBar(props: {
  number: number;
  x: number;
  y: number;
  width: number;
  height: number;
}) {
  const { number, x, y, width, height } = props;
  const middle = y + height / 2;
  return Number.isNaN(number) ? (
    <g class="nbg-nan">
      <rect x={x} y={y} width={width} height={height} />
      <line x1={x} x2={x + width} y1={middle} y2={middle} stroke-width={height} />
    </g>
  ) : (
    <rect class="nbg-inf" x={x} y={y} width={width} height={height} />
  );
}

interface TopValuesProps {
  value: Value;
  maxRows: number;
  /** CSS pixels available for the names and bars. */
  width?: number;
  /** The displayed elements, and the ends of the longest bars, if they differ from the value's default. */
  channels?: readonly number[];
  limits?: { low: number; high: number } | null;
  /** Called on a click on a value, to explain it. */
  explain?: ((channel: number) => void) | undefined;
}

/**
 * The largest values of a classifier's output as bars with their numbers; negative bars extend to the left of a common
 * zero.
 */
export function TopValues(props: TopValuesProps) {
  const { value, maxRows, width = 0, explain } = props;
  const { classNames } = useViews();
  const [list, seen] = useVisibility<HTMLDivElement>();
  const values = useExampleValues(props.channels === undefined ? null : value);
  const top = useTopk(props.channels === undefined ? value : null, seen);
  const length = value.nchw[1];
  const named = classNames.value(value.key);
  const order = props.channels ?? top?.indices.slice(0, maxRows) ?? [];
  const own = order.map((channel, k) => (top ? top.scores[k] : values?.[channel]) ?? 0);
  const finite = [...own, props.limits?.low ?? 0, props.limits?.high ?? 0].filter(Number.isFinite);
  const [low, high] = hasUnitRange(value)
    ? [0, 1]
    : [Math.min(0, ...finite), Math.max(0, ...finite)];
  const share = (size: number): number =>
    Math.max(0, Math.min(100, (100 * size) / (high - low || 1)));
  const room = named.length > 0 ? { width: px(Math.max(150, width)) } : {};
  return (
    <div
      ref={list}
      class={named.length > 0 ? "nbg-top nbg-of-classes" : "nbg-top"}
      style={room}
      data-bars={value.key}
      data-channels={props.channels?.length ?? Math.min(maxRows, length)}
    >
      {order.map((channel, k) => (
        <TopRow
          key={channel}
          channelAttributes={{ "data-of": value.key, "data-channel": channel }}
          number={own[k] ?? 0}
          name={named[channel] || `${channel}`}
          title={classText(named, channel)}
          toPercent={share}
          low={low}
          explain={explain && (() => explain(channel))}
        />
      ))}
      {length > maxRows && props.channels === undefined && (
        <span class="nbg-second nbg-top-more">
          the {maxRows} largest, {length - maxRows} more
        </span>
      )}
    </div>
  );
}

function TopRow(props: {
  /** The value and channel of the row: an Alt-click mutes the channel. */
  channelAttributes: { "data-of": string; "data-channel": number };
  number: number;
  name: string;
  title: string;
  toPercent: (size: number) => number;
  low: number;
  explain: (() => void) | undefined;
}) {
  const { channelAttributes, number, name, title, toPercent, low, explain } = props;
  const size = Number.isFinite(number) ? number : 0;
  const from = toPercent(Math.min(0, size) - low);
  const row = (
    <>
      <span class="nbg-top-name">{name}</span>
      <span class="nbg-top-track">
        <span
          class={number >= 0 ? "nbg-top-bar" : "nbg-top-bar nbg-below"}
          style={{ marginLeft: `${from}%`, width: `${toPercent(Math.abs(size))}%` }}
        />
      </span>
      <strong>{formatShort(number)}</strong>
    </>
  );
  if (explain === undefined) {
    return (
      <div class="nbg-top-row" title={title} {...channelAttributes}>
        {row}
      </div>
    );
  }
  return (
    <button
      type="button"
      class="nbg-top-row"
      {...channelAttributes}
      title={`${title}: why this value?`}
      tabIndex={-1} // keyboard users use the Layer tab
      onClick={explain}
    >
      {row}
    </button>
  );
}

/** A scalar, displayed as its number. */
export function NumberPicture({ value }: { value: Value }) {
  const values = useExampleValues(value);
  return (
    <span class="nbg-number">{values === null ? "…" : formatShort(values[0] ?? Number.NaN)}</span>
  );
}

/** The most classes listed when vectors are compared. */
const MAX_COMPARED_CLASSES = 8;

/** The classes with the largest score in either of two vectors. */
export const topIndicesOfEither = (a: Float32Array, b: Float32Array): number[] =>
  argsortDescending(Array.from(a, (one, k) => Math.max(one, b[k] ?? one))).slice(
    0,
    MAX_COMPARED_CLASSES,
  );

/**
 * A vector for comparison with others on the same limits: named classes as a list, other vectors as bars, a scalar as a
 * number.
 */
export function ComparedVector(props: {
  value: Value;
  /** The value that this one is derived from; it determines the display kind and class names. */
  derivedFrom?: Value;
  /** CSS pixels of the chart. */
  width: number;
  height: number;
  limits: { low: number; high: number } | null;
  elements: readonly number[];
}) {
  const { value, derivedFrom = value, width, height, limits, elements } = props;
  const { classNames } = useViews();
  const count = value.nchw[1];
  if (displayStyle(derivedFrom).name === "number") return <NumberPicture value={value} />;
  if (classNames.value(derivedFrom.key).length > 0) {
    return (
      <TopValues value={value} maxRows={count} channels={elements} limits={limits} width={width} />
    );
  }
  const magnitudeLimit = limits && Math.max(-limits.low, limits.high);
  return (
    <BarChart
      value={value}
      width={width}
      height={height}
      maxBars={elements.length}
      channels={elements}
      {...(magnitudeLimit && { magnitudeLimit })}
      upright
      label={`${value.key}, ${elements.length} of ${count} values`}
    />
  );
}
