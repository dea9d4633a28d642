// The channels in a grid: their order, and the layout for a width.
import type { Statistics } from "../plan/runtime.ts";
import type { ChannelOrder } from "../state.ts";
import { argsortDescending, fitScale, tileSide } from "./layout.ts";

export const PAGE_SIZE = 256;

/** Channels in the chosen order; by number until the statistics have arrived. `similarities` is for "similarity". */
export function channelOrder(
  length: number,
  order: ChannelOrder,
  statistics: Statistics | null,
  similarities: readonly number[] = [],
): number[] {
  const numbers = Array.from({ length }, (_, i) => i);
  if (order === "similarity")
    return similarities.length === length ? argsortDescending(similarities) : numbers;
  if (order === "number" || statistics === null) return numbers;
  const by = { mean: "mean", max: "max", variance: "std" } as const;
  const key = by[order];
  return argsortDescending(numbers.map((i) => statistics.channels[i]?.[key] ?? Number.NaN));
}

/**
 * The best columns and scale for maps in a width: an integer number of pixels per map pixel, tiles near a preferred
 * size, a full last row.
 */
export function gridLayout(
  map: { height: number; width: number },
  count: number,
  width: number,
  pixelRatio: number,
): { columns: number; scale: number; gap: number } {
  const room = Math.max(1, Math.floor(width * pixelRatio));
  const least = Math.round(6 * pixelRatio);
  const wanted = (count <= 4 ? 168 : count <= 12 ? 116 : 76) * pixelRatio;
  let best = { columns: 1, scale: fitScale(map.width, Math.min(room, wanted)), gap: least };
  let bestCost = Number.POSITIVE_INFINITY;
  for (let columns = 1; columns <= Math.min(count, 24); columns++) {
    const share = Math.floor((room - (columns - 1) * least) / columns);
    if (share < 16 * pixelRatio) break;
    const scale = fitScale(map.width, Math.min(share, wanted * 1.6));
    const tile = tileSide(map.width, scale);
    const spread = columns > 1 ? Math.floor((room - columns * tile) / (columns - 1)) : least;
    const gap = Math.min(spread, Math.round(20 * pixelRatio));
    const unused = columns < count ? 1 - (columns * (tile + gap) - gap) / room : 0;
    const rows = Math.ceil(count / columns);
    const ragged = (rows * columns - count) / (rows * columns);
    const cost = Math.abs(Math.log(tile / wanted)) + unused * 2 + ragged * 1.5;
    if (cost < bestCost) {
      bestCost = cost;
      best = { columns, scale, gap };
    }
  }
  return best;
}
