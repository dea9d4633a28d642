// All channels of a layer: maps with their number and mean, in the chosen order, 256 a page.
import type { Statistics } from "../gl/types.ts";
import type { Value } from "../plan.ts";
import { useViews } from "./context.ts";
import { exact, percent, short } from "./format.ts";
import { px, tileSide } from "./layout.ts";
import { Maps } from "./maps.tsx";
import { gridOf } from "./order.ts";

export function Grid(props: {
  value: Value;
  channels: readonly number[];
  statistics: Statistics | null;
  selected: number | null;
  width: number;
}) {
  const { value, channels, statistics, selected, width } = props;
  const ratio = useViews().ratio.value;
  const [, , mapHeight, mapWidth] = value.layout.frame;
  const map = { height: mapHeight, width: mapWidth };
  const { columns, scale, gap } = gridOf(map, channels.length, width, ratio);
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
            label={`channels ${row.join(", ")} of ${value.key}`}
          />
          <div class="nbg-cells" style={{ gap: px(gap / ratio) }}>
            {row.map((channel) => (
              <Cell
                key={channel}
                value={value}
                channel={channel}
                statistics={statistics}
                chosen={channel === selected}
                width={tileSide(mapWidth, scale) / ratio}
                height={tileSide(mapHeight, scale) / ratio}
              />
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}

/** A frame over a map of the row's canvas, and its caption. */
function Cell(props: {
  value: Value;
  channel: number;
  statistics: Statistics | null;
  chosen: boolean;
  width: number;
  height: number;
}) {
  const { value, channel, statistics, chosen, width, height } = props;
  const { state } = useViews();
  const one = statistics?.channels[channel];
  const spoken = one
    ? `channel ${channel}, mean ${short(one.mean)}, max ${short(one.max)}, ${percent(one.zeros)} zero`
    : `channel ${channel}`;
  const select = (): void => {
    state.selected.value = { layer: value.key, channel };
  };
  const dead = one !== undefined && one.zeros === 1;
  const broken = one !== undefined && one.nan + one.inf > 0;
  return (
    <div class={chosen ? "nbg-cell nbg-chosen" : "nbg-cell"} style={{ width: px(width) }}>
      <button
        type="button"
        class="nbg-frame"
        aria-pressed={chosen}
        aria-label={spoken}
        tabIndex={chosen ? 0 : -1}
        style={{ height: px(height) }}
        onClick={select}
      />
      <span class="nbg-cell-caption">
        <span>{channel}</span>
        {dead ? (
          <span title="zero everywhere in this picture">dead</span>
        ) : broken ? (
          <span class="nbg-bad" title={`${one.nan} NaN, ${one.inf} Inf`}>
            {one.nan > 0 ? "NaN" : "Inf"}
          </span>
        ) : (
          one && <span title={`mean ${exact(one.mean)}`}>{short(one.mean)}</span>
        )}
      </span>
    </div>
  );
}
