// All channels of a layer: maps with their number and mean, in the chosen order, 256 per page.

import { MAX_COMPARED_CHANNELS } from "../messages.ts";
import { channelPictureSize } from "../network/display_kind.ts";
import {
  formatCount,
  formatExact,
  formatPercent,
  formatShort,
  nonFiniteCountText,
} from "../number_format.ts";
import type { ColorMapName, Statistics, Summary } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { type ActivationBounds, FLAG_TEXT, flagOf } from "./channel_flags.ts";
import { gridLayout } from "./channel_order.ts";
import { useViews } from "./context.ts";
import { hasNonFinite, px, tileSide } from "./layout.ts";
import { Maps } from "./maps.tsx";

export function ChannelGrid(props: {
  value: Value;
  channels: readonly number[];
  statistics: Statistics | null;
  selectedChannel: number | null;
  comparedChannels: readonly number[];
  /** Bounds of the activation, for captions of saturated channels. */
  bounds: ActivationBounds | null;
  width: number;
  colorMap?: ColorMapName;
}) {
  const { value, channels, statistics, selectedChannel, comparedChannels, bounds } = props;
  const { state, pixelRatio: ratioOf, network, classNames } = useViews();
  const [, , mapHeight, across] = value.nchw;
  const named = classNames.value(value.key);
  const ratio = ratioOf.value;
  const isDifference = network.value?.comparisonPairs.get(value.key)?.difference === value.key;
  const colorMap = channelPictureSize(value);
  const { columns, scale, gap } = gridLayout(colorMap, channels.length, props.width, ratio);
  const width = tileSide(colorMap.width, scale) / ratio;
  const rows: (readonly number[])[] = [];
  for (let i = 0; i < channels.length; i += columns) rows.push(channels.slice(i, i + columns));
  return (
    <div class="nbg-grid" role="group" aria-label={`Channels of ${value.key}`}>
      {rows.map((row) => (
        <div class="nbg-grid-row" key={row[0]}>
          <Maps
            value={value}
            channels={row}
            columns={columns}
            scale={scale}
            gap={gap}
            colorMap={props.colorMap}
            isRgb={false}
            label={`channels ${row.join(", ")} of ${value.key}`}
            pickPixel={(y, x) => {
              state.pixel.value = { mapHeight, mapWidth: across, y, x };
            }}
          >
            {/* Inside the maps element, so that the map below a frame receives its pointer events. */}
            <span class="nbg-frames" style={{ gap: px(gap / ratio) }}>
              {row.map((channel) => (
                <ChannelFrame
                  key={channel}
                  value={value}
                  channel={channel}
                  summary={statistics?.channels[channel]}
                  isSelected={channel === selectedChannel || comparedChannels.includes(channel)}
                  selectedChannel={selectedChannel}
                  width={width}
                />
              ))}
            </span>
          </Maps>
          <div class="nbg-captions" style={{ gap: px(gap / ratio) }}>
            {row.map((channel) => (
              <Caption
                key={channel}
                channel={channel}
                name={named[channel] ?? ""}
                summary={statistics?.channels[channel]}
                isSelected={channel === selectedChannel || comparedChannels.includes(channel)}
                bounds={bounds}
                width={width}
                isDifference={isDifference}
              />
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}

/** A frame over a map in the row's canvas; clicking it selects the channel. */
function ChannelFrame(props: {
  value: Value;
  channel: number;
  summary: Summary | undefined;
  isSelected: boolean;
  selectedChannel: number | null;
  width: number;
}) {
  const { value, channel, summary, isSelected, selectedChannel, width } = props;
  const { state, classNames } = useViews();
  const name = classNames.value(value.key)[channel];
  const called = `channel ${channel}${name ? `, ${name}` : ""}`;
  const spoken = summary
    ? [
        called,
        `mean ${formatShort(summary.mean)}`,
        `max ${formatShort(summary.max)}`,
        `${formatPercent(summary.zeroFraction)} zero`,
        ...(hasNonFinite(summary) ? [nonFiniteCountText(summary)] : []),
      ].join(", ")
    : called;
  const select = (event: MouseEvent): void => {
    const layer = value.key;
    const before = state.comparedChannels.peek();
    if (!event.shiftKey) {
      state.comparedChannels.value = null;
      state.selected.value = { layer, channel };
      return;
    }
    const known = before?.layer === layer ? before.channels : [selectedChannel ?? channel];
    const others = known.filter((one) => one !== channel);
    const channels =
      others.length < known.length ? others : [...known, channel].slice(-MAX_COMPARED_CHANNELS);
    state.comparedChannels.value = channels.length > 1 ? { layer, channels } : null;
    const now = channels.includes(selectedChannel ?? -1)
      ? selectedChannel
      : (channels[0] ?? channel);
    state.selected.value = { layer, channel: now };
  };
  return (
    <button
      type="button"
      class="nbg-frame"
      aria-pressed={isSelected}
      aria-label={spoken}
      tabIndex={channel === selectedChannel ? 0 : -1}
      style={{ width: px(width) }}
      onClick={select}
    />
  );
}

/** The channel's number and mean, and its flag or count of non-finite values. */
function Caption(props: {
  channel: number;
  /** Class name of the channel; "" if it has none. */
  name: string;
  summary: Summary | undefined;
  isSelected: boolean;
  bounds: ActivationBounds | null;
  width: number;
  isDifference: boolean;
}) {
  const { channel, name, summary, isSelected, bounds, width, isDifference } = props;
  return (
    <span
      class={isSelected ? "nbg-cell-caption nbg-chosen" : "nbg-cell-caption"}
      style={{ width: px(width) }}
    >
      {name === "" ? (
        <span>{channel}</span>
      ) : (
        <span class="nbg-cell-name" title={name}>
          {channel} {name}
        </span>
      )}
      {summary?.zeroFraction === 1 && isDifference ? (
        <span title="A and B are equal everywhere in this picture">equal</span>
      ) : (
        summary !== undefined && <MeanOrFlag summary={summary} bounds={bounds} />
      )}
    </span>
  );
}

function MeanOrFlag({ summary, bounds }: { summary: Summary; bounds: ActivationBounds | null }) {
  const flag = flagOf(summary, bounds);
  if (flag !== null) return <span title={FLAG_TEXT[flag]}>{flag}</span>;
  const flawed = hasNonFinite(summary);
  // As everywhere, the mean covers finite values only; the count of the others is shown beside it.
  const mean = flawed && Number.isNaN(summary.mean) ? null : summary.mean;
  return (
    <>
      {mean !== null && (
        <span title={`mean ${formatExact(mean)}${flawed ? " of the finite values" : ""}`}>
          {formatShort(mean)}
        </span>
      )}
      {flawed && (
        <span class="nbg-bad" title={nonFiniteCountText(summary)}>
          {summary.nan > 0 ? `${formatCount(summary.nan)} NaN` : `${formatCount(summary.inf)} Inf`}
        </span>
      )}
    </>
  );
}
