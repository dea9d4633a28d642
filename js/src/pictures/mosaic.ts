// Layout of maps and pictures: the size of a mosaic, and several mosaics in one canvas. No GL.

/** The size of a picture, and of one map in it, in canvas pixels. */
export interface MosaicSize {
  readonly width: number;
  readonly height: number;
  readonly mapWidth: number;
  readonly mapHeight: number;
}

export interface MosaicOptions {
  readonly count: number;
  readonly columns: number;
  readonly gap: number;
  readonly scale: number;
  /** Canvas pixels of a map if its size differs from its values' size: a curve. */
  readonly curveSize?: readonly [width: number, height: number] | undefined;
}

/** The size of a mosaic of `count` maps of h × w pixels; throw RangeError for invalid numbers. */
export function mosaicSize(h: number, w: number, options: MosaicOptions): MosaicSize {
  const { count, columns, gap, scale } = options;
  if (!(scale > 0) || (scale > 1 && !Number.isInteger(scale))) {
    throw new RangeError(`scale is ${scale}: a whole number, or a fraction below 1`);
  }
  if (!Number.isInteger(columns) || columns < 1) throw new RangeError(`columns is ${columns}`);
  if (!Number.isInteger(gap) || gap < 0) throw new RangeError(`gap is ${gap}`);
  const [mapWidth, mapHeight] = options.curveSize ?? [
    Math.max(1, Math.round(w * scale)),
    Math.max(1, Math.round(h * scale)),
  ];
  if (![mapWidth, mapHeight].every((side) => Number.isInteger(side) && side >= 1)) {
    throw new RangeError(`a map of ${mapWidth} × ${mapHeight} pixels`);
  }
  const across = Math.min(columns, Math.max(1, count));
  const down = Math.max(1, Math.ceil(count / columns));
  return {
    mapWidth,
    mapHeight,
    width: across * (mapWidth + gap) - gap,
    height: down * (mapHeight + gap) - gap,
  };
}

export interface PackedItem<T> {
  readonly item: T;
  readonly x: number;
  readonly y: number;
}

export interface Atlas<T> {
  readonly width: number;
  readonly height: number;
  readonly packedItems: readonly PackedItem<T>[];
}

/** Pack pictures on shelves, tallest first, into as few atlases of at most `maxSide` pixels as possible. */
export function packAtlases<T extends { readonly width: number; readonly height: number }>(
  items: readonly T[],
  maxSide: number,
): Atlas<T>[] {
  const atlases: { width: number; height: number; packedItems: PackedItem<T>[] }[] = [];
  // Aim for a square: a browser's cost is the atlas's area, including empty parts.
  const area = items.reduce((sum, item) => sum + item.width * item.height, 0);
  const widest = Math.max(0, ...items.map((item) => item.width));
  const width = Math.min(maxSide, Math.max(widest, Math.ceil(Math.sqrt(area))));
  let atlas = { width: 0, height: 0, packedItems: [] as PackedItem<T>[] };
  let [x, shelf, below] = [0, 0, 0];
  for (const item of [...items].sort((a, b) => b.height - a.height)) {
    if (x > 0 && x + item.width > width) [x, shelf] = [0, below];
    if (atlases.length === 0 || shelf + item.height > maxSide) {
      atlas = { width: 0, height: 0, packedItems: [] };
      atlases.push(atlas);
      [x, shelf, below] = [0, 0, 0];
    }
    atlas.packedItems.push({ item, x, y: shelf });
    x += item.width;
    below = Math.max(below, shelf + item.height);
    atlas.width = Math.max(atlas.width, x);
    atlas.height = Math.max(atlas.height, below);
  }
  return atlases;
}
