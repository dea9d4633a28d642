// The panel beside the strip: the layer under the pointer or the selected one, its most active channels, and its
// statistics.

import { channelCountText, contentsText, displayStyle } from "../network/display_kind.ts";
import { initiallySelectedValue, longType, type Network } from "../network/network.ts";
import { formatPercent, formatShort } from "../number_format.ts";
import type { Statistics } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { BarChart, NumberPicture } from "./bar_chart.tsx";
import { ChannelTile, TILE_SIDE, tilesPerRow } from "./channel_tile.tsx";
import { useHistogram, useStatistics, useViews } from "./context.ts";
import { Histogram } from "./histogram.tsx";
import { RightIcon } from "./icons.tsx";
import { ImageRange } from "./image_range.tsx";
import { hasNonFinite, rankByVariation } from "./layout.ts";
import { Legend } from "./legend.tsx";
import { SegmentationView } from "./overlay/segmentation.tsx";
import { PythonBadge } from "./python_layers.tsx";
import { isSkipped } from "./run_queries.ts";

/** The layer that the panel shows: under the pointer, else selected, else the first. */
function usePanelValue(network: Network): Value | undefined {
  const { state, hoveredLayer } = useViews();
  for (const name of [hoveredLayer.value, state.selected.value?.layer]) {
    const value = name ? network.values.get(name) : undefined;
    if (value !== undefined) return value;
  }
  return initiallySelectedValue(network);
}

export function LayerPanel({ network }: { network: Network }) {
  const { state, pixelRatio, width } = useViews();
  const value = usePanelValue(network);
  const statistics = useStatistics(value ?? null);
  if (value === undefined) return null;
  const layer = network.layers.find((one) => one.name === value.key);
  const room = width.value - 2 * 24 - (width.value >= 760 ? 232 : 0);
  const most = Math.min(10, tilesPerRow(value, pixelRatio.value, room));
  const channels = value.nchw[1];
  const maps = displayStyle(value).isPerChannel;
  const shown = Math.min(most, channels);
  const flawed = statistics?.channels.some(hasNonFinite)
    ? ", those with NaN or infinity first"
    : "";
  const bars = displayStyle(value).name === "bars" ? maxBarCount(room) : channels;
  const which =
    maps && channels > shown
      ? ` · ${channelCountText(value, shown)} with the largest variance${flawed}`
      : channels > bars
        ? ` · the ${bars} largest values`
        : "";
  const open = (): void => {
    state.selected.value = { layer: value.key, channel: null };
    state.tab.value = "layer";
  };
  const end = value.kind === "input" ? "Input" : "Output";
  const apart = network.comparisonPairs.get(value.key)?.difference === value.key ? "B − A" : end;
  const title = layer ? longType(layer) : apart;
  return (
    <section class="nbg-panel" aria-label={`About ${value.key}`}>
      <header>
        <div class="nbg-title">
          <strong>{value.key}</strong> <PythonBadge layer={value.key} />
          <span class="nbg-second">
            {title} · {contentsText(value)}
            {which}
          </span>
        </div>
        <div class="nbg-tools">
          {maps && <Legend value={value} statistics={statistics} />}
          {displayStyle(value).isImage && (
            <span class="nbg-second">
              <ImageRange value={value} />
            </span>
          )}
          {layer !== undefined && (
            <button type="button" class="nbg-button" onClick={open}>
              Open layer <RightIcon />
            </button>
          )}
        </div>
      </header>
      <div class="nbg-about">
        {maps ? (
          <MostVaryingMaps value={value} statistics={statistics} shownCount={shown} />
        ) : (
          <WidePicture value={value} width={room} />
        )}
        <ValueSummary value={value} statistics={statistics} />
      </div>
    </section>
  );
}

function MostVaryingMaps(props: {
  value: Value;
  statistics: Statistics | null;
  shownCount: number;
}) {
  const { value, statistics, shownCount } = props;
  const { state } = useViews();
  const order = statistics
    ? rankByVariation(statistics.channels)
    : Array.from({ length: value.nchw[1] }, (_, i) => i);
  return (
    <div class="nbg-tiles nbg-lively">
      {order.slice(0, shownCount).map((channel) => (
        <ChannelTile
          key={channel}
          value={value}
          channel={channel}
          label={`Open channel ${channel} of ${value.key}`}
          choose={() => {
            state.selected.value = { layer: value.key, channel };
            state.tab.value = "layer";
          }}
        >
          <span>ch {channel}</span>
        </ChannelTile>
      ))}
    </div>
  );
}

/** The number of bars of a vector that fit side by side. */
const maxBarCount = (width: number): number => Math.floor(width / 6);

function WidePicture({ value, width }: { value: Value; width: number }) {
  const label = `${value.key}, ${contentsText(value)}`;
  const { name } = displayStyle(value);
  if (name === "classes") {
    return <SegmentationView value={value} side={Math.min(220, width)} />;
  }
  if (name !== "bars") {
    return <div class="nbg-lively">{name === "number" && <NumberPicture value={value} />}</div>;
  }
  const length = value.nchw[1];
  const most = Math.min(length, maxBarCount(width));
  const wide = Math.min(width, most * 24);
  return (
    <div class="nbg-lively">
      <BarChart
        value={value}
        width={wide}
        height={TILE_SIDE}
        maxBars={most}
        upright
        label={label}
      />
    </div>
  );
}

// Hovering over a stage must not compute the histogram of more elements than this.
const MAX_HISTOGRAM_ELEMENTS = 4e6;

/** The distribution of the layer's values, and its summary. */
function ValueSummary({ value, statistics }: { value: Value; statistics: Statistics | null }) {
  const { state } = useViews();
  const found = useHistogram(value.readback.count <= MAX_HISTOGRAM_ELEMENTS ? value : null, {
    bins: 44,
  });
  return (
    <div class="nbg-summing">
      <Histogram
        histogram={found}
        width={212}
        height={46}
        label={`Histogram of ${value.key}; bar height is the square root of the count`}
      />
      {isSkipped(state.session.value, value.key) ? (
        <p class="nbg-numbers">This layer doesn’t run while a latent is active.</p>
      ) : (
        <SummaryNumbers statistics={statistics} />
      )}
    </div>
  );
}

/** Key statistics: mean, share of zeros, dead channels. */
function SummaryNumbers({ statistics }: { statistics: Statistics | null }) {
  if (statistics === null) return <p class="nbg-numbers">…</p>;
  const { layer, channels } = statistics;
  const dead = channels.filter((one) => one.zeroFraction === 1).length;
  const nan = channels.findIndex((one) => one.nan > 0);
  const first = nan < 0 ? channels.findIndex((one) => one.inf > 0) : nan;
  return (
    <p class="nbg-numbers">
      <span>
        mean <strong>{formatShort(layer.mean)}</strong>
      </span>
      <span>
        zero <strong>{formatPercent(layer.zeroFraction)}</strong>
      </span>
      <span title="channels that are zero everywhere in this picture">
        dead <strong>{dead}</strong>
      </span>
      {layer.nan > 0 && (
        <span class="nbg-bad">
          NaN <strong>{layer.nan}</strong>
        </span>
      )}
      {layer.inf > 0 && (
        <span class="nbg-bad">
          Inf <strong>{layer.inf}</strong>
        </span>
      )}
      {first >= 0 && channels.length > 1 && (
        <span class="nbg-bad">
          first in <strong>channel {first}</strong>
        </span>
      )}
    </p>
  );
}
