// All channels of a layer: maps with their number and mean, in the chosen order, 256 a page.

import { count, exact, leftOut, percent, short } from "../format.ts";
import { MAX_COMPARED } from "../messages.ts";
import { frameOf } from "../network/display.ts";
import type { ColorMapName, Statistics, Summary } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { useViews } from "./context.ts";
import { type Bounds, FLAGS, flagOf } from "./flags.ts";
import { isFlawed, px, tileSide } from "./layout.ts";
import { Maps } from "./maps.tsx";
import { gridOf } from "./order.ts";

export function Grid(props: {
  value: Value;
  channels: readonly number[];
  statistics: Statistics | null;
  selected: number | null;
  compared: readonly number[];
  /** Its caption says so of channels near an end of their activation. */
  bounds: Bounds | null;
  width: number;
  map?: ColorMapName;
}) {
  const { value, channels, statistics, selected, compared, bounds } = props;
  const { state, ratio: ratioOf, network, names } = useViews();
  const [, , height, across] = value.nchw;
  const named = names.value(value.key);
  const ratio = ratioOf.value;
  const isDifference = network.value?.pairs.get(value.key)?.difference === value.key;
  const map = frameOf(value);
  const { columns, scale, gap } = gridOf(map, channels.length, props.width, ratio);
  const width = tileSide(map.width, scale) / ratio;
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
            map={props.map}
            rgb={false}
            label={`channels ${row.join(", ")} of ${value.key}`}
            pick={(y, x) => {
              state.pixel.value = { height, width: across, y, x };
            }}
          >
            {/* Within the maps, so that the pointer over a frame is over the map below it. */}
            <span class="nbg-frames" style={{ gap: px(gap / ratio) }}>
              {row.map((channel) => (
                <Frame
                  key={channel}
                  value={value}
                  channel={channel}
                  summary={statistics?.channels[channel]}
                  chosen={channel === selected || compared.includes(channel)}
                  selected={selected}
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
                chosen={channel === selected || compared.includes(channel)}
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

/** A frame over a map of the row's canvas, which selects its channel. */
function Frame(props: {
  value: Value;
  channel: number;
  summary: Summary | undefined;
  chosen: boolean;
  selected: number | null;
  width: number;
}) {
  const { value, channel, summary, chosen, selected, width } = props;
  const { state, names } = useViews();
  const name = names.value(value.key)[channel];
  const called = `channel ${channel}${name ? `, ${name}` : ""}`;
  const spoken = summary
    ? [
        called,
        `mean ${short(summary.mean)}`,
        `max ${short(summary.max)}`,
        `${percent(summary.zeros)} zero`,
        ...(isFlawed(summary) ? [leftOut(summary)] : []),
      ].join(", ")
    : called;
  const select = (event: MouseEvent): void => {
    const layer = value.key;
    const before = state.compared.peek();
    if (!event.shiftKey) {
      state.compared.value = null;
      state.selected.value = { layer, channel };
      return;
    }
    const known = before?.layer === layer ? before.channels : [selected ?? channel];
    const others = known.filter((one) => one !== channel);
    const channels =
      others.length < known.length ? others : [...known, channel].slice(-MAX_COMPARED);
    state.compared.value = channels.length > 1 ? { layer, channels } : null;
    const now = channels.includes(selected ?? -1) ? selected : (channels[0] ?? channel);
    state.selected.value = { layer, channel: now };
  };
  return (
    <button
      type="button"
      class="nbg-frame"
      aria-pressed={chosen}
      aria-label={spoken}
      tabIndex={channel === selected ? 0 : -1}
      style={{ width: px(width) }}
      onClick={select}
    />
  );
}

/** The channel's number and mean, and what is wrong with it. */
function Caption(props: {
  channel: number;
  /** Of a class. */
  name: string;
  summary: Summary | undefined;
  chosen: boolean;
  bounds: Bounds | null;
  width: number;
  isDifference: boolean;
}) {
  const { channel, name, summary, chosen, bounds, width, isDifference } = props;
  return (
    <span
      class={chosen ? "nbg-cell-caption nbg-chosen" : "nbg-cell-caption"}
      style={{ width: px(width) }}
    >
      {name === "" ? (
        <span>{channel}</span>
      ) : (
        <span class="nbg-cell-name" title={name}>
          {channel} {name}
        </span>
      )}
      {summary?.zeros === 1 && isDifference ? (
        <span title="A and B are equal everywhere in this picture">equal</span>
      ) : (
        summary !== undefined && <Mean summary={summary} bounds={bounds} />
      )}
    </span>
  );
}

function Mean({ summary, bounds }: { summary: Summary; bounds: Bounds | null }) {
  const flag = flagOf(summary, bounds);
  if (flag !== null) return <span title={FLAGS[flag]}>{flag}</span>;
  const flawed = isFlawed(summary);
  // As everywhere, the mean is that of the finite values; the count of the others stands beside it.
  const mean = flawed && Number.isNaN(summary.mean) ? null : summary.mean;
  return (
    <>
      {mean !== null && (
        <span title={`mean ${exact(mean)}${flawed ? " of the finite values" : ""}`}>
          {short(mean)}
        </span>
      )}
      {flawed && (
        <span class="nbg-bad" title={leftOut(summary)}>
          {summary.nan > 0 ? `${count(summary.nan)} NaN` : `${count(summary.inf)} Inf`}
        </span>
      )}
    </>
  );
}
