// One channel large, the filter that makes it, and its numbers beside the layer's.

import { exact, fixed, full, leftOut, ordinal, percent, plain } from "../../format.ts";
import { displayOf, frameOf } from "../../network/display.ts";
import type { Statistics, Summary } from "../../plan/runtime.ts";
import type { Value } from "../../plan/schema.ts";
import { useImageValues } from "../bars.tsx";
import { colorTable, inkOn } from "../colors.ts";
import { useHistogram, useValues, useViews } from "../context.ts";
import { Histogram } from "../histogram.tsx";
import { Attended } from "../kinds/tokens.tsx";
import { fitScale, isFlawed, largest, px } from "../layout.ts";
import { Maps } from "../maps.tsx";
import { Over } from "../overlay/over.tsx";
import { type Kernels, kernelStart } from "../weights.ts";

const LARGE = 300;
/** CSS pixels beside it where nothing stands below, and weights up to which there is room for them. */
const BESIDE = 163;
const FEW = 5;
/** Kernels up to this many weights are shown with their numbers. */
const NUMBERED = 7;
/** CSS pixels of a number's cell. */
const CELL = 40;

export function Inspector(props: {
  value: Value;
  statistics: Statistics | null;
  channel: number;
  /** The channels in the order in which they are shown. */
  order: readonly number[];
  kernels: Kernels | null;
  /** Channels to show beside each other; the one alone when there are fewer than two. */
  compared: readonly number[];
}) {
  const { value, statistics, channel, order, kernels, compared } = props;
  const { state, width, names, network: shown } = useViews();
  const network = shown.value;
  const room = Math.min(LARGE, width.value - 48);
  const word = displayOf(value).name === "attention" ? "Head" : "Channel";
  const name = names.value(value.key)[channel];
  const explain = (): void => {
    state.selected.value = { layer: value.key, channel };
    state.section.value = "explain";
  };
  return (
    <aside class="nbg-inspector" aria-label={`Channel ${channel}`}>
      <header>
        <h3>
          {word} {channel} {name && <strong>{name}</strong>}{" "}
          <span class="nbg-second">{placeOf(state.order.value, order, channel)}</span>
        </h3>
        <button type="button" class="nbg-button" onClick={explain}>
          Explain
        </button>
      </header>
      {displayOf(value).drawn === undefined ? (
        <p class="nbg-number">
          {statistics ? fixed(statistics.channels[channel]?.mean ?? 0, 4) : "…"}
        </p>
      ) : (
        <LargeMaps value={value} channels={compared.length > 1 ? compared : [channel]} />
      )}
      {network && displayOf(value).name === "attention" && (
        <Attended network={network} value={value} head={channel} side={room} />
      )}
      <div class="nbg-beside">
        {kernels !== null && <Filter kernels={kernels} channel={channel} />}
        <ChannelValues
          value={value}
          channel={channel}
          summary={statistics?.channels[channel]}
          beside={state.presenting.value ? BESIDE : besideFilter(kernels)}
        />
      </div>
      {statistics !== null && <Table statistics={statistics} channel={channel} />}
    </aside>
  );
}

/** One channel, or up to four in rows of two with their numbers. */
function LargeMaps({ value, channels }: { value: Value; channels: readonly number[] }) {
  const { width } = useViews();
  const side = Math.min(LARGE, width.value - 48);
  const [channel = 0, second] = channels;
  if (second === undefined) {
    const alone = { value, channel, side };
    return (
      <Over {...alone}>
        <LargeMap {...alone} />
      </Over>
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
  const { ratio, state } = useViews();
  const [, channels, mapHeight, mapWidth] = value.nchw;
  const room = props.side * ratio.value;
  const frame = frameOf(value);
  const scale = fitScale(Math.max(frame.height, frame.width), room);
  const shown = displayOf(value).image ? Array.from({ length: channels }, (_, i) => i) : [channel];
  return (
    <Maps
      value={value}
      channels={shown}
      columns={1}
      scale={Math.min(1, scale)}
      zoom={Math.max(1, scale) / ratio.value}
      label={`channel ${channel} of ${value.key}`}
      rank={scale >= 1}
      pick={(y, x) => {
        state.selected.value = { layer: value.key, channel };
        state.pixel.value = { height: mapHeight, width: mapWidth, y, x };
        state.section.value = "explain";
      }}
    />
  );
}

/** CSS pixels that are left beside a filter with its numbers; all where the values stand below it. */
function besideFilter(kernels: Kernels | null): number {
  if (kernels === null) return LARGE;
  const { height, width } = kernels;
  const left = LARGE - width * CELL - 16;
  return Math.max(height, width) <= NUMBERED && left >= 120 ? left : LARGE;
}

/** The channel's values as a histogram, with the one under the pointer marked. */
function ChannelValues(props: {
  value: Value;
  channel: number;
  summary: Summary | undefined;
  beside: number;
}) {
  const { value, channel, summary, beside } = props;
  const { hover } = useViews();
  const found = useHistogram(value, { bins: Math.floor(beside / 5), channel });
  const at = hover.value;
  const here = at !== null && at.value.key === value.key && at.channels[0] === channel;
  const values = useImageValues(here ? value : null);
  const [, , height, width] = value.nchw;
  const size = height * width;
  if (size < 4) return null;
  return (
    <figure class="nbg-filter">
      <figcaption>
        Its {full(size)} values
        {summary && isFlawed(summary) && <span class="nbg-bad"> without {leftOut(summary)}</span>}{" "}
        {beside === LARGE && <span class="nbg-second">· bar height √count</span>}
      </figcaption>
      <Histogram
        found={found}
        width={beside}
        height={beside === BESIDE ? 80 : beside < LARGE ? 120 : 56}
        mark={here ? values?.[channel * size + at.y * width + at.x] : undefined}
        label={`Values of channel ${channel}`}
      />
    </figure>
  );
}

/** The kernel of the channel for one input channel: the one with the largest weights, when there are several. */
function Filter({ kernels, channel }: { kernels: Kernels; channel: number }) {
  const { state, theme } = useViews();
  const values = useValues(kernels.weight);
  if (values === null || channel >= kernels.outputs) return null;
  const { height, width, inputs } = kernels;
  const size = height * width;
  const kernelOf = (k: number) => {
    const start = kernelStart(kernels, channel, k);
    return values.subarray(start, start + size);
  };
  const strength = (k: number) => kernelOf(k).reduce((sum, weight) => sum + weight * weight, 0);
  let strongest = 0;
  for (let k = 1; k < inputs; k++) if (strength(k) > strength(strongest)) strongest = k;
  const few = state.presenting.value;
  if (Math.max(height, width) > (few ? FEW : NUMBERED)) return null;
  const cell = few ? Math.min(CELL, Math.floor(BESIDE / width)) : CELL;
  const kernel = kernelOf(strongest);
  const most = largest(kernel) || 1;
  const table = colorTable(state.colormap.value, theme.value);
  return (
    <figure class="nbg-filter">
      <figcaption>
        Its filter, {height}×{width}
        {inputs > 1 && (
          <span class="nbg-second">
            {" "}
            for input channel {strongest}, the strongest of {inputs}
          </span>
        )}
      </figcaption>
      <div
        class="nbg-weights"
        style={{ gridTemplateColumns: `repeat(${width}, ${cell}px)`, gridAutoRows: px(cell) }}
      >
        {Array.from(kernel, (weight, i) => {
          const color = table(0.5 + (0.5 * weight) / most);
          const painted = { background: `rgb(${color.join(" ")})`, color: inkOn(color) };
          const odd = Number.isNaN(weight) ? "nbg-nan" : "nbg-inf";
          const finite = Number.isFinite(weight);
          return (
            <span
              key={i}
              class={finite ? "" : odd}
              style={finite ? painted : {}}
              title={exact(weight)}
            >
              {plain(weight, most < 10 ? 2 : most < 100 ? 1 : 0)}
            </span>
          );
        })}
      </div>
    </figure>
  );
}

const ROWS: readonly (readonly [string, (one: Summary) => string])[] = [
  ["min", (one) => fixed(one.min)],
  ["max", (one) => fixed(one.max)],
  ["mean", (one) => fixed(one.mean)],
  ["std", (one) => fixed(one.std)],
  ["zero", (one) => percent(one.zeros, 1)],
];

function Table({ statistics, channel }: { statistics: Statistics; channel: number }) {
  const { layer, channels } = statistics;
  const one = channels[channel];
  if (one === undefined) return null;
  const dead = channels.filter((each) => each.zeros === 1).length;
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
        {ROWS.map(([word, text]) => (
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
                {full(one.nan)}, {full(one.inf)}
              </strong>
            </td>
            <td>
              {full(layer.nan)}, {full(layer.inf)}
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

/** "third by variance": why a channel stands where it does. */
function placeOf(order: string, channels: readonly number[], channel: number): string {
  const at = channels.indexOf(channel);
  return order === "number" || at < 0 ? `of ${channels.length}` : `${ordinal(at)} by ${order}`;
}
