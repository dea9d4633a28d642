// Picture layout: the size of a map pixel, the columns of a mosaic, the number of pictures that fit one line. Lengths
// are device pixels unless their name contains css: a map pixel is a whole number of device pixels.
import type { Summary } from "../plan/runtime.ts";

/** Below this many CSS pixels, everything is in one column. */
export const NARROW_WIDTH = 520;

/** The maps of one value: their number, and their size in map pixels. */
export interface MapShape {
  readonly channels: number;
  readonly height: number;
  readonly width: number;
}

/** The layout of a mosaic. */
export interface Mosaic {
  /** The number of channels shown. */
  readonly shownCount: number;
  readonly columns: number;
  readonly rows: number;
  /** Device pixels per map pixel: a whole number, or 1/n for maps that are too large. */
  readonly scale: number;
  readonly width: number;
  readonly height: number;
}

/** A CSS length. */
export const px = (length: number): string => `${length}px`;

export const tileSide = (pixels: number, scale: number): number =>
  Math.max(1, Math.ceil(pixels * scale - 1e-9));

/** The mosaic of the first `shownCount` channels in this many columns. */
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
 * A mosaic of all channels, no taller than `maxHeight` and at most about twice as tall as wide; prefers columns without
 * a gap in the last row. Null if even one column per channel is too tall.
 */
export function tallMosaic(
  maps: MapShape,
  scale: number,
  gap: number,
  maxHeight: number,
): Mosaic | null {
  const side = tileSide(maps.height, scale) + gap;
  const most = Math.floor((maxHeight + gap) / side);
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

/** A mosaic of as many channels as fit a box. */
export function boxMosaic(
  maps: MapShape,
  box: { width: number; height: number },
  gap: number,
  minTileSide: number,
): Mosaic {
  // A tile is at least `minTileSide` wide, so that a 7×7 map is visible; large maps shrink so that several fit the box.
  const side = Math.max(maps.width, maps.height);
  const third = Math.max(
    minTileSide,
    Math.floor(Math.min(box.width, box.height) / (maps.channels > 3 ? 2 : 1)) - gap,
  );
  const scale =
    side >= minTileSide
      ? side > third
        ? fitScale(side, third)
        : 1
      : Math.max(1, Math.ceil(minTileSide / side));
  const columns = Math.max(1, Math.floor((box.width + gap) / (tileSide(maps.width, scale) + gap)));
  const rows = Math.max(1, Math.floor((box.height + gap) / (tileSide(maps.height, scale) + gap)));
  return squarestMosaic(
    maps,
    Math.min(maps.channels, columns * rows),
    { columns, rows },
    scale,
    gap,
  );
}

/**
 * A mosaic of `shownCount` channels within these columns and rows: close to square, preferably without a gap in the
 * last row.
 */
function squarestMosaic(
  maps: MapShape,
  shownCount: number,
  { columns, rows }: { columns: number; rows: number },
  scale: number,
  gap: number,
): Mosaic {
  const empty = (one: Mosaic): number => (one.rows * one.columns - shownCount) / shownCount;
  // Prefer landscape to portrait.
  const long = (one: Mosaic): number => Math.abs(Math.log(one.width / one.height) - 0.01);
  const cost = (one: Mosaic): number => long(one) + 8 * empty(one);
  return Array.from({ length: Math.max(1, Math.min(columns, shownCount)) }, (_, i) =>
    mosaic(maps, shownCount, i + 1, scale, gap),
  )
    .filter((one) => one.rows <= rows)
    .reduce((a, one) => (cost(one) < cost(a) ? one : a));
}

/**
 * A mosaic of as many channels as fit a box; if all fit, as large as possible, preferably without a gap in the last
 * row.
 */
export function fullMosaic(
  maps: MapShape,
  box: { width: number; height: number },
  gap: number,
  minTileSide: number,
): Mosaic {
  const { channels } = maps;
  let best = boxMosaic(maps, box, gap, minTileSide);
  for (let { scale } = best; best.shownCount === channels && scale <= box.width; ) {
    const columns = Math.floor((box.width + gap) / (tileSide(maps.width, scale) + gap));
    const rows = Math.floor((box.height + gap) / (tileSide(maps.height, scale) + gap));
    if (columns * rows < channels) break;
    best = squarestMosaic(maps, channels, { columns, rows }, scale, gap);
    scale = scale < 1 ? 1 / (Math.round(1 / scale) - 1) : scale + 1;
  }
  return best;
}

/** The layout of a one-line strip: mosaics between the two end pictures. */
export interface StripLayout {
  /** Device pixels per map pixel, the same for all stages; null if each stage has its own scale. */
  readonly scale: number | null;
  readonly mosaics: readonly (Mosaic | null)[];
  /** The most device pixels per side of an end picture. */
  readonly maxEndpointSide: number;
  /** Height of the tallest mosaic, which is also the limit for bars. */
  readonly maxHeight: number;
}

export interface StripRoom {
  readonly width: number;
  readonly height: number;
  /** The width between neighbours, including the arrow. */
  readonly arrowWidth: number;
  /** The least width of each stage, for its caption. */
  readonly captionWidths: readonly number[];
  /** The width of a stage that shows bars or a number. */
  readonly barsWidth: number;
  /** The least size of a channel's map. */
  readonly minTileSide: number;
  readonly gap: number;
  readonly pixelRatio: number;
}

const tallestHeight = (mosaics: readonly (Mosaic | null)[]): number =>
  Math.max(0, ...mosaics.map((one) => one?.height ?? 0));

/** The size left for each end picture beside these mosaics on one line; −∞ if they do not fit. */
function endpointSpace(
  mosaics: readonly (Mosaic | null)[],
  endpointCount: number,
  room: StripRoom,
): number {
  const width = mosaics.reduce(
    (sum, one, i) => sum + Math.max(one?.width ?? room.barsWidth, room.captionWidths[i] ?? 0),
    (mosaics.length + endpointCount - 1) * room.arrowWidth,
  );
  if (width > room.width) return Number.NEGATIVE_INFINITY;
  return endpointCount === 0
    ? room.height
    : Math.floor(Math.min((room.width - width) / endpointCount, room.height));
}

/**
 * The layout with the largest common scale at which every stage with all its channels and the end pictures fit one
 * line; null if there is none. `null` stages are bars or numbers; `endpointCount` is the number of end pictures.
 */
export function oneLineLayout(
  stages: readonly (MapShape | null)[],
  endpointCount: number,
  room: StripRoom,
): StripLayout | null {
  const smallest = Math.min(room.height, 110 * room.pixelRatio);
  const sides = stages.flatMap((maps) => (maps ? Math.max(maps.width, maps.height) : []));
  const least = Math.max(1, Math.ceil(room.minTileSide / Math.min(...sides, room.minTileSide)));
  for (let scale = Math.round(5 * room.pixelRatio); scale >= least; scale--) {
    const mosaics = stages.map((maps) =>
      maps === null ? null : tallMosaic(maps, scale, room.gap, room.height),
    );
    if (mosaics.some((one, i) => one === null && stages[i] !== null)) continue;
    const left = endpointSpace(mosaics, endpointCount, room);
    // At larger scales the end pictures must be as tall as the tallest stage.
    const tallest = tallestHeight(mosaics);
    const wanted =
      scale > 2 * room.pixelRatio ? Math.max(smallest, Math.min(tallest, room.height)) : smallest;
    if (left >= wanted)
      return { scale, mosaics: mosaics, maxEndpointSide: left, maxHeight: tallest || left };
  }
  return null;
}

/**
 * A one-line layout in which each stage has its own scale and shows as many channels as fit its box. The boxes are as
 * wide as possible without being wider than the end pictures. Null if the captions do not fit.
 */
export function boxedLineLayout(
  stages: readonly (MapShape | null)[],
  endpointCount: number,
  room: StripRoom,
): StripLayout | null {
  const narrowest = Math.max(...room.captionWidths, room.barsWidth);
  for (let width = Math.round(2.5 * narrowest); width >= narrowest; width -= 4) {
    const box = { width, height: room.height };
    const mosaics = stages.map((maps) => maps && fullMosaic(maps, box, room.gap, room.minTileSide));
    const left = endpointSpace(mosaics, endpointCount, room);
    if (left < Math.min(room.height, Math.max(110 * room.pixelRatio, width))) continue;
    return {
      scale: null,
      mosaics: mosaics,
      maxEndpointSide: left,
      maxHeight: tallestHeight(mosaics) || left,
    };
  }
  return null;
}

/**
 * Rows of boxes, each after an arrow, that fill the width (CSS pixels). Uses fewer, wider boxes if pictures of these
 * sides would be much smaller than their boxes, since pictures scale by whole numbers.
 */
export function rowLayout(
  width: number,
  arrowWidth: number,
  endpointSides: readonly number[],
): { columns: number; box: number } {
  const most = Math.max(
    1,
    Math.floor(width / (Math.min(150, Math.max(112, width / 9)) + arrowWidth)),
  );
  const rows = (columns: number) => ({ columns, box: Math.floor(width / columns) - arrowWidth });
  const fill = (columns: number): number => {
    const { box } = rows(columns);
    return Math.min(1, ...endpointSides.map((side) => (side * fitScale(side, box)) / box));
  };
  const fewer = [most, most - 1, most - 2].filter((columns) => columns >= 3);
  return rows(fewer.find((columns) => fill(columns) > 0.7) ?? most);
}

/** The largest whole-number scale (device pixels per picture pixel) that fits `room`, and the resulting size. */
export function pictureSize(
  height: number,
  width: number,
  room: { width: number; height: number },
) {
  const scale = Math.min(fitScale(width, room.width), fitScale(height, room.height));
  return { scale, width: tileSide(width, scale), height: tileSide(height, scale) };
}

/** The least side of a smaller picture, as a share of the largest picture's drawn side. */
const MIN_ENDPOINT_FRACTION = 0.5;

/**
 * The side of an input or output picture if the largest of them, of side `largestSide`, takes `availableSide`. All have
 * one scale, so that an upscaler's output is larger than its input, but no picture is drawn less than half as large as
 * the largest.
 */
export function endpointSide(side: number, largestSide: number, availableSide: number): number {
  if (side >= largestSide) return availableSide;
  const drawn = tileSide(largestSide, fitScale(largestSide, availableSide));
  return Math.min(
    availableSide,
    Math.floor(drawn * Math.max(side / largestSide, MIN_ENDPOINT_FRACTION)),
  );
}

/** Whether a channel has non-finite elements; these channels come first, whatever their variance. */
export const hasNonFinite = ({ nan, inf }: Pick<Summary, "nan" | "inf">): boolean => nan + inf > 0;

/**
 * Channels sorted by standard deviation, largest first; channels with NaN or infinity come before all others. Ties keep
 * their order.
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

/** The largest finite absolute value: the ends of a symmetric range for bars around zero. */
export function maxAbs(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i] ?? 0);
    if (Number.isFinite(size) && size > most) most = size;
  }
  return most;
}
