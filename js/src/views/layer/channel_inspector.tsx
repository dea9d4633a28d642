// One channel enlarged, the filter that computes it, and its statistics beside the layer's.

import { channelPictureSize, displayStyle } from "../../network/display_kind.ts";
import {
  formatExact,
  formatFixed,
  formatInteger,
  formatOrdinal,
  formatPadded,
  formatPercent,
  nonFiniteCountText,
} from "../../number_format.ts";
import type { Statistics, Summary } from "../../plan/runtime.ts";
import type { Value } from "../../plan/schema.ts";
import { useExampleValues } from "../bar_chart.tsx";
import { colorTable, textColorOn } from "../colors.ts";
import { useHistogram, useValues, useViews } from "../context.ts";
import { Histogram } from "../histogram.tsx";
import { type Kernels, kernelStart } from "../layer_weights.ts";
import { fitScale, hasNonFinite, maxAbs, px } from "../layout.ts";
import { Maps } from "../maps.tsx";
import { BlendedPicture } from "../overlay/blended_picture.tsx";
import { AttendedTokens } from "../value_views/attended_tokens.tsx";

const LARGE_MAP_SIDE = 300;
/**
 * ASIDE_WIDTH: CSS pixels beside a filter in presentation mode, where the histogram must not wrap below it.
 * MAX_COMPACT_KERNEL: the largest kernel for which that space suffices.
 */
const PRESENTATION_ASIDE_WIDTH = 163;
const MAX_COMPACT_KERNEL = 5;
/** Kernels up to this many weights per side are shown with their numbers. */
const MAX_NUMBERED_KERNEL = 7;
/** CSS pixels of a number's cell. */
const CELL_SIZE = 40;

export function ChannelInspector(props: {
  value: Value;
  statistics: Statistics | null;
  channel: number;
  /** The channels in display order. */
  channelOrder: readonly number[];
  kernels: Kernels | null;
  /** Channels to compare side by side; with fewer than two, only the selected channel is shown. */
  comparedChannels: readonly number[];
}) {
  const { value, statistics, channel, channelOrder, kernels, comparedChannels } = props;
  const { state, width, classNames, network: shown } = useViews();
  const network = shown.value;
  const room = Math.min(LARGE_MAP_SIDE, width.value - 48);
  const word = displayStyle(value).name === "attention" ? "Head" : "Channel";
  const name = classNames.value(value.key)[channel];
  const explain = (): void => {
    state.selected.value = { layer: value.key, channel };
    state.layerSection.value = "explain";
  };
  return (
    <aside class="nbg-inspector" aria-label={`Channel ${channel}`}>
      <header>
        <h3>
          {word} {channel} {name && <strong>{name}</strong>}{" "}
          <span class="nbg-second">
            {rankText(state.channelOrder.value, channelOrder, channel)}
          </span>
        </h3>
        <button type="button" class="nbg-button" onClick={explain}>
          Explain
        </button>
      </header>
      {displayStyle(value).drawMode === undefined ? (
        <p class="nbg-number">
          {statistics ? formatFixed(statistics.channels[channel]?.mean ?? 0, 4) : "…"}
        </p>
      ) : (
        <LargeMaps
          value={value}
          channels={comparedChannels.length > 1 ? comparedChannels : [channel]}
        />
      )}
      {network && displayStyle(value).name === "attention" && (
        <AttendedTokens network={network} value={value} head={channel} side={room} />
      )}
      <div class="nbg-beside">
        {kernels !== null && <ChannelFilter kernels={kernels} channel={channel} />}
        <ChannelHistogram
          value={value}
          channel={channel}
          summary={statistics?.channels[channel]}
          chartWidth={
            state.isPresenting.value ? PRESENTATION_ASIDE_WIDTH : widthBesideFilter(kernels)
          }
        />
      </div>
      {statistics !== null && <SummaryTable statistics={statistics} channel={channel} />}
    </aside>
  );
}

/** One channel, or up to four in rows of two, each with its number. */
function LargeMaps({ value, channels }: { value: Value; channels: readonly number[] }) {
  const { width } = useViews();
  const side = Math.min(LARGE_MAP_SIDE, width.value - 48);
  const [channel = 0, second] = channels;
  if (second === undefined) {
    const alone = { value, channel, side };
    return (
      <BlendedPicture {...alone}>
        <LargeMap {...alone} />
      </BlendedPicture>
    );
  }
  return (
    <div class="nbg-tiles nbg-fours">
      {channels.map((channel) => (
        <figure key={channel}>
          <LargeMap value={value} channel={channel} side={Math.floor(side / 2) - 4} />
          <figcaption>channel {channel}</figcaption>
        </figure>
      ))}
    </div>
  );
}

function LargeMap(props: { value: Value; channel: number; side: number }) {
  const { value, channel } = props;
  const { pixelRatio, state } = useViews();
  const [, channels, mapHeight, mapWidth] = value.nchw;
  const room = props.side * pixelRatio.value;
  const frame = channelPictureSize(value);
  const scale = fitScale(Math.max(frame.height, frame.width), room);
  const shown = displayStyle(value).isImage
    ? Array.from({ length: channels }, (_, i) => i)
    : [channel];
  return (
    <Maps
      value={value}
      channels={shown}
      columns={1}
      scale={Math.min(1, scale)}
      zoom={Math.max(1, scale) / pixelRatio.value}
      label={`channel ${channel} of ${value.key}`}
      showRank={scale >= 1}
      pickPixel={(y, x) => {
        state.selected.value = { layer: value.key, channel };
        state.pixel.value = { mapHeight, mapWidth, y, x };
        state.layerSection.value = "explain";
      }}
    />
  );
}

/** CSS pixels left beside a filter with its numbers; the full width if the histogram is below it. */
function widthBesideFilter(kernels: Kernels | null): number {
  if (kernels === null) return LARGE_MAP_SIDE;
  const { height, width } = kernels;
  const left = LARGE_MAP_SIDE - width * CELL_SIZE - 16;
  return Math.max(height, width) <= MAX_NUMBERED_KERNEL && left >= 120 ? left : LARGE_MAP_SIDE;
}

/** A histogram of the channel's values, with the value under the pointer marked. */
function ChannelHistogram(props: {
  value: Value;
  channel: number;
  summary: Summary | undefined;
  chartWidth: number;
}) {
  const { value, channel, summary, chartWidth } = props;
  const { hover } = useViews();
  const found = useHistogram(value, { bins: Math.floor(chartWidth / 5), channel });
  const at = hover.value;
  const here = at !== null && at.value.key === value.key && at.channels[0] === channel;
  const values = useExampleValues(here ? value : null);
  const [, , height, width] = value.nchw;
  const size = height * width;
  if (size < 4) return null;
  return (
    <figure class="nbg-filter">
      <figcaption>
        Its {formatInteger(size)} values
        {summary && hasNonFinite(summary) && (
          <span class="nbg-bad"> without {nonFiniteCountText(summary)}</span>
        )}{" "}
        {chartWidth === LARGE_MAP_SIDE && <span class="nbg-second">· bar height √count</span>}
      </figcaption>
      <Histogram
        histogram={found}
        width={chartWidth}
        height={
          chartWidth === PRESENTATION_ASIDE_WIDTH ? 80 : chartWidth < LARGE_MAP_SIDE ? 120 : 56
        }
        markedValue={here ? values?.[channel * size + at.y * width + at.x] : undefined}
        label={`Values of channel ${channel}`}
      />
    </figure>
  );
}

/** The channel's kernel for one input channel; among several, the one with the largest weights. */
function ChannelFilter({ kernels, channel }: { kernels: Kernels; channel: number }) {
  const { state, theme } = useViews();
  const values = useValues(kernels.weight);
  if (values === null || channel >= kernels.outputCount) return null;
  const { height, width, inputCount } = kernels;
  const size = height * width;
  const kernelOf = (k: number) => {
    const start = kernelStart(kernels, channel, k);
    return values.subarray(start, start + size);
  };
  const strength = (k: number) => kernelOf(k).reduce((sum, weight) => sum + weight * weight, 0);
  let strongest = 0;
  for (let k = 1; k < inputCount; k++) if (strength(k) > strength(strongest)) strongest = k;
  const few = state.isPresenting.value;
  if (Math.max(height, width) > (few ? MAX_COMPACT_KERNEL : MAX_NUMBERED_KERNEL)) return null;
  const cell = few ? Math.min(CELL_SIZE, Math.floor(PRESENTATION_ASIDE_WIDTH / width)) : CELL_SIZE;
  const kernel = kernelOf(strongest);
  const most = maxAbs(kernel) || 1;
  const table = colorTable(state.colormap.value, theme.value);
  return (
    <figure class="nbg-filter">
      <figcaption>
        Its filter, {height}×{width}
        {inputCount > 1 && (
          <span class="nbg-second">
            {" "}
            for input channel {strongest}, the strongest of {inputCount}
          </span>
        )}
      </figcaption>
      <div
        class="nbg-weights"
        style={{ gridTemplateColumns: `repeat(${width}, ${cell}px)`, gridAutoRows: px(cell) }}
      >
        {Array.from(kernel, (weight, i) => {
          const color = table(0.5 + (0.5 * weight) / most);
          const painted = { background: `rgb(${color.join(" ")})`, color: textColorOn(color) };
          const odd = Number.isNaN(weight) ? "nbg-nan" : "nbg-inf";
          const finite = Number.isFinite(weight);
          return (
            <span
              key={i}
              class={finite ? "" : odd}
              style={finite ? painted : {}}
              title={formatExact(weight)}
            >
              {formatPadded(weight, most < 10 ? 2 : most < 100 ? 1 : 0)}
            </span>
          );
        })}
      </div>
    </figure>
  );
}

const SUMMARY_ROWS: readonly (readonly [string, (one: Summary) => string])[] = [
  ["min", (one) => formatFixed(one.min)],
  ["max", (one) => formatFixed(one.max)],
  ["mean", (one) => formatFixed(one.mean)],
  ["std", (one) => formatFixed(one.std)],
  ["zero", (one) => formatPercent(one.zeroFraction, 1)],
];

function SummaryTable({ statistics, channel }: { statistics: Statistics; channel: number }) {
  const { layer, channels } = statistics;
  const one = channels[channel];
  if (one === undefined) return null;
  const dead = channels.filter((each) => each.zeroFraction === 1).length;
  return (
    <table class="nbg-table">
      <thead>
        <tr>
          <td />
          <th scope="col">channel {channel}</th>
          <th scope="col">layer</th>
        </tr>
      </thead>
      <tbody>
        {SUMMARY_ROWS.map(([word, text]) => (
          <tr key={word}>
            <th scope="row">{word}</th>
            <td>
              <strong>{text(one)}</strong>
            </td>
            <td>{text(layer)}</td>
          </tr>
        ))}
        {layer.nan + layer.inf > 0 && (
          <tr class="nbg-bad">
            <th scope="row">NaN, Inf</th>
            <td>
              <strong>
                {formatInteger(one.nan)}, {formatInteger(one.inf)}
              </strong>
            </td>
            <td>
              {formatInteger(layer.nan)}, {formatInteger(layer.inf)}
            </td>
          </tr>
        )}
        <tr>
          <th scope="row">dead channels</th>
          <td>–</td>
          <td>
            {dead} of {channels.length}
          </td>
        </tr>
      </tbody>
    </table>
  );
}

/** The channel's rank in the current order, e.g. "third by variance". */
function rankText(orderName: string, channels: readonly number[], channel: number): string {
  const at = channels.indexOf(channel);
  return orderName === "number" || at < 0
    ? `of ${channels.length}`
    : `${formatOrdinal(at)} by ${orderName}`;
}
