// All channels of a layer: maps with their number and mean, in the chosen order, 256 a page.
import type { Statistics } from "../gl/types.ts";
import type { Value } from "../plan.ts";
import type { Order } from "../state.ts";
import { useViews } from "./context.ts";
import { exact, percent, short } from "./format.ts";
import { fitScale, rank, tileSide } from "./layout.ts";
import { Maps } from "./maps.tsx";

export const PAGE = 256;

/** Channels in the chosen order; by number until the numbers are there. */
export function orderOf(length: number, order: Order, statistics: Statistics | null): number[] {
  const numbers = Array.from({ length }, (_, i) => i);
  if (order === "number" || statistics === null) return numbers;
  const by = { mean: "mean", max: "max", variance: "std" } as const;
  const key = by[order];
  return rank(numbers.map((i) => statistics.channels[i]?.[key] ?? Number.NaN));
}

/** How many columns of which tile fill a width: the tile is near 76 CSS pixels, and whole map pixels wide. */
export function gridOf(
  map: { height: number; width: number },
  count: number,
  width: number,
  ratio: number,
): { columns: number; scale: number; gap: number } {
  const room = width * ratio;
  const least = 6 * ratio;
  const wanted = (count <= 4 ? 168 : count <= 12 ? 116 : 76) * ratio;
  const scale = fitScale(Math.max(map.width, map.height / 2), Math.min(room, wanted * 1.12));
  const tile = tileSide(map.width, scale);
  const fits = Math.max(1, Math.floor((room + least) / (tile + least)));
  // The last row is full where a nearby number of columns makes it so.
  const even = [fits, fits - 1, fits - 2].find((columns) => columns > 0 && count % columns === 0);
  const columns = Math.min(count, even ?? fits);
  const spread = columns > 1 ? Math.floor((room - columns * tile) / (columns - 1)) : least;
  return { columns, scale, gap: Math.min(spread, Math.round(14 * ratio)) };
}

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
    <div class="nbg-grid" role="grid" aria-label={`Channels of ${value.key}`}>
      {rows.map((row) => (
        <div class="nbg-grid-row" role="row" key={row[0]}>
          <Maps
            value={value}
            channels={row}
            columns={columns}
            scale={scale}
            gap={gap}
            label={`channels ${row.join(", ")} of ${value.key}`}
          />
          <div class="nbg-cells" style={{ gap: gap / ratio }}>
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
    <div class="nbg-cell" role="gridcell" aria-selected={chosen} style={{ width }}>
      <button
        type="button"
        class={chosen ? "nbg-frame nbg-chosen" : "nbg-frame"}
        aria-label={spoken}
        tabIndex={chosen ? 0 : -1}
        style={{ height }}
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
