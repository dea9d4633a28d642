// Where pictures go: how large a map pixel is, how many columns a mosaic has, what fits on one line.
// Lengths are device pixels unless they say css: a map pixel is a whole number of device pixels.
import type { Summary } from "../plan/runtime.ts";

/** CSS pixels below which everything is one column. */
export const NARROW = 520;

/** Maps of one value: how many, and their size in map pixels. */
export interface MapShape {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
}

/** A mosaic as it will be drawn. */
export interface Mosaic {
  /** How many of the channels it shows. */
  readonly shownCount: number;
  readonly columns: number;
  readonly rows: number;
  /** Device pixels per map pixel: whole, or one whole-th for maps that are too large. */
  readonly scale: number;
  readonly width: number;
  readonly height: number;
}

/** A length for a style. */
export const px = (length: number): string => `${length}px`;

export const tileSide = (pixels: number, scale: number): number =>
  Math.max(1, Math.ceil(pixels * scale - 1e-9));

/** A mosaic of the first `shown` channels in this many columns. */
export function mosaic(
  maps: MapShape,
  shownCount: number,
  columns: number,
  scale: number,
  gap: number,
): Mosaic {
  const rows = Math.ceil(shownCount / columns);
  return {
    shownCount,
    columns,
    rows,
    scale,
    width: columns * (tileSide(maps.width, scale) + gap) - gap,
    height: rows * (tileSide(maps.height, scale) + gap) - gap,
  };
}

/** The largest scale at which `pixels` fit `room`: a whole number, or 1/2, 1/3, … */
export function fitScale(pixels: number, room: number): number {
  return room >= pixels
    ? Math.max(1, Math.floor(room / pixels))
    : 1 / Math.ceil(pixels / Math.max(1, room));
}

/**
 * All channels, no taller than `room`, at most about twice as tall as wide; columns that leave no gap in
 * the last row are preferred. Null when even one column per channel is too tall.
 */
export function tallMosaic(
  maps: MapShape,
  scale: number,
  gap: number,
  room: number,
): Mosaic | null {
  const side = tileSide(maps.height, scale) + gap;
  const most = Math.floor((room + gap) / side);
  if (most < 1) return null;
  const least = Math.ceil(maps.channels / most);
  let best: Mosaic | null = null;
  let bestCost = Number.POSITIVE_INFINITY;
  for (let columns = least; columns <= Math.min(maps.channels, least * 3 + 3); columns++) {
    const one = mosaic(maps, maps.channels, columns, scale, gap);
    const aspect = one.height / one.width;
    const empty = one.rows * columns - maps.channels;
    const cost =
      (aspect > 2.2 ? (aspect - 2.2) * 2 : 0) +
      Math.abs(Math.log(aspect / 1.4)) * 0.5 +
      (empty / maps.channels) * 4;
    if (cost < bestCost) {
      best = one;
      bestCost = cost;
    }
  }
  return best;
}

/** As many channels as a box holds. */
export function boxMosaic(
  maps: MapShape,
  box: { width: number; height: number },
  gap: number,
  least: number,
): Mosaic {
  // A tile is at least `least` wide, so that a 7×7 map can be seen, and a large map shrinks to a third of the box.
  const side = Math.max(maps.width, maps.height);
  const third = Math.max(
    least,
    Math.floor(Math.min(box.width, box.height) / (maps.channels > 3 ? 2 : 1)) - gap,
  );
  const scale =
    side >= least
      ? side > third
        ? fitScale(side, third)
        : 1
      : Math.max(1, Math.ceil(least / side));
  const columns = Math.max(1, Math.floor((box.width + gap) / (tileSide(maps.width, scale) + gap)));
  const rows = Math.max(1, Math.floor((box.height + gap) / (tileSide(maps.height, scale) + gap)));
  return squarest(maps, Math.min(maps.channels, columns * rows), { columns, rows }, scale, gap);
}

/** So many channels in the columns and rows that there are: not as a line, and best without a gap in the last row. */
function squarest(
  maps: MapShape,
  shown: number,
  { columns, rows }: { columns: number; rows: number },
  scale: number,
  gap: number,
): Mosaic {
  const empty = (one: Mosaic): number => (one.rows * one.columns - shown) / shown;
  // Lying rather than standing.
  const long = (one: Mosaic): number => Math.abs(Math.log(one.width / one.height) - 0.01);
  const cost = (one: Mosaic): number => long(one) + 8 * empty(one);
  return Array.from({ length: Math.max(1, Math.min(columns, shown)) }, (_, i) =>
    mosaic(maps, shown, i + 1, scale, gap),
  )
    .filter((one) => one.rows <= rows)
    .reduce((a, one) => (cost(one) < cost(a) ? one : a));
}

/** As many channels as a box holds; where it holds all of them, as large as they fit, best without a gap in the last row. */
export function fullMosaic(
  maps: MapShape,
  box: { width: number; height: number },
  gap: number,
  least: number,
): Mosaic {
  const { channels } = maps;
  let best = boxMosaic(maps, box, gap, least);
  for (let { scale } = best; best.shownCount === channels && scale <= box.width; ) {
    const columns = Math.floor((box.width + gap) / (tileSide(maps.width, scale) + gap));
    const rows = Math.floor((box.height + gap) / (tileSide(maps.height, scale) + gap));
    if (columns * rows < channels) break;
    best = squarest(maps, channels, { columns, rows }, scale, gap);
    scale = scale < 1 ? 1 / (Math.round(1 / scale) - 1) : scale + 1;
  }
  return best;
}

/** What stands on the strip's line: mosaics between the pictures at both ends. */
export interface StripLayout {
  /** Device pixels per map pixel, the same for all stages; null where each has its own. */
  readonly scale: number | null;
  readonly stages: readonly (Mosaic | null)[];
  /** Device pixels a side that the end pictures may have. */
  readonly endSide: number;
  /** Height of the tallest mosaic, which bars don't exceed. */
  readonly maxHeight: number;
}

export interface StripRoom {
  readonly width: number;
  readonly height: number;
  /** Between neighbours, with the arrow. */
  readonly arrow: number;
  /** Each stage is at least so wide, for its caption. */
  readonly captions: readonly number[];
  /** Width of a stage that is bars or a number. */
  readonly bars: number;
  /** A channel's map is at least so large. */
  readonly tile: number;
  readonly gap: number;
  readonly ratio: number;
}

const tallestHeight = (mosaics: readonly (Mosaic | null)[]): number =>
  Math.max(0, ...mosaics.map((one) => one?.height ?? 0));

/** What end pictures have beside these mosaics on one line. */
function spaceLeft(mosaics: readonly (Mosaic | null)[], ends: number, room: StripRoom): number {
  const width = mosaics.reduce(
    (sum, one, i) => sum + Math.max(one?.width ?? room.bars, room.captions[i] ?? 0),
    (mosaics.length + ends - 1) * room.arrow,
  );
  if (width > room.width) return Number.NEGATIVE_INFINITY;
  return ends === 0 ? room.height : Math.floor(Math.min((room.width - width) / ends, room.height));
}

/**
 * The largest common scale at which every stage with all its channels and the end pictures fit one line;
 * null when there is none. `null` stages are bars or numbers; `ends` is the number of end pictures.
 */
export function fitLine(
  stages: readonly (MapShape | null)[],
  ends: number,
  room: StripRoom,
): StripLayout | null {
  const smallest = Math.min(room.height, 110 * room.ratio);
  const sides = stages.flatMap((maps) => (maps ? Math.max(maps.width, maps.height) : []));
  const least = Math.max(1, Math.ceil(room.tile / Math.min(...sides, room.tile)));
  for (let scale = Math.round(5 * room.ratio); scale >= least; scale--) {
    const mosaics = stages.map((maps) =>
      maps === null ? null : tallMosaic(maps, scale, room.gap, room.height),
    );
    if (mosaics.some((one, i) => one === null && stages[i] !== null)) continue;
    const left = spaceLeft(mosaics, ends, room);
    // The pictures at both ends are the largest things on the line.
    const tallest = tallestHeight(mosaics);
    const wanted =
      scale > 2 * room.ratio ? Math.max(smallest, Math.min(tallest, room.height)) : smallest;
    if (left >= wanted)
      return { scale, stages: mosaics, endSide: left, maxHeight: tallest || left };
  }
  return null;
}

/**
 * One line where each stage has its own scale, and as many channels as a box holds: the widest boxes that
 * leave the end pictures wider than they are; null where captions have no room.
 */
export function fitBoxes(
  stages: readonly (MapShape | null)[],
  ends: number,
  room: StripRoom,
): StripLayout | null {
  const narrowest = Math.max(...room.captions, room.bars);
  for (let width = Math.round(2.5 * narrowest); width >= narrowest; width -= 4) {
    const box = { width, height: room.height };
    const mosaics = stages.map((maps) => maps && fullMosaic(maps, box, room.gap, room.tile));
    const left = spaceLeft(mosaics, ends, room);
    if (left < Math.min(room.height, Math.max(110 * room.ratio, width))) continue;
    return {
      scale: null,
      stages: mosaics,
      endSide: left,
      maxHeight: tallestHeight(mosaics) || left,
    };
  }
  return null;
}

/**
 * Rows of boxes, each behind an arrow, that fill the width (CSS pixels); some wider boxes rather than such in
 * which pictures of these sides are small, since they grow by whole numbers.
 */
export function fitRows(
  width: number,
  arrow: number,
  ends: readonly number[],
): { columns: number; box: number } {
  const most = Math.max(1, Math.floor(width / (Math.min(150, Math.max(112, width / 9)) + arrow)));
  const rows = (columns: number) => ({ columns, box: Math.floor(width / columns) - arrow });
  const fill = (columns: number): number => {
    const { box } = rows(columns);
    return Math.min(1, ...ends.map((side) => (side * fitScale(side, box)) / box));
  };
  const fewer = [most, most - 1, most - 2].filter((columns) => columns >= 3);
  return rows(fewer.find((columns) => fill(columns) > 0.7) ?? most);
}

/** The whole number of device pixels per picture pixel that fits `room`, and the size it gives. */
export function pictureSize(
  height: number,
  width: number,
  room: { width: number; height: number },
) {
  const scale = Math.min(fitScale(width, room.width), fitScale(height, room.height));
  return { scale, width: tileSide(width, scale), height: tileSide(height, scale) };
}

/** Of the largest picture's drawn side, what a smaller one has at least. */
const MIN_SHARE = 0.5;

/**
 * The side that an input's or output's picture may have where the `largest` of them has `room`: both are drawn at one
 * scale, so that an upscaler's output is the larger one, but the smaller picture is not less than half as large.
 */
export function endpointSide(own: number, largest: number, room: number): number {
  if (own >= largest) return room;
  const drawn = tileSide(largest, fitScale(largest, room));
  return Math.min(room, Math.floor(drawn * Math.max(own / largest, MIN_SHARE)));
}

/** Channels in which something isn't finite: whatever they do, it is what one looks for. */
export const hasNonFinite = ({ nan, inf }: Pick<Summary, "nan" | "inf">): boolean => nan + inf > 0;

/**
 * Which channels vary most, first those with NaN or infinity, then the one that varies most; ties keep their number's
 * order.
 */
export function rankByVariation(
  channels: readonly Pick<Summary, "std" | "nan" | "inf">[],
): number[] {
  return argsortDescending(
    channels.map((one) => {
      if (hasNonFinite(one)) return Number.POSITIVE_INFINITY;
      return Number.isFinite(one.std) ? one.std : -1;
    }),
  );
}

/** Indices from the largest to the smallest number; NaN last, ties in order. */
export function argsortDescending(values: readonly number[]): number[] {
  const key = (i: number): number => {
    const value = values[i];
    return value === undefined || Number.isNaN(value) ? Number.NEGATIVE_INFINITY : value;
  };
  return values.map((_, i) => i).sort((a, b) => (key(b) === key(a) ? a - b : key(b) - key(a)));
}

/** Ends of a nice range for bars around zero. */
export function maxAbs(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i] ?? 0);
    if (Number.isFinite(size) && size > most) most = size;
  }
  return most;
}
