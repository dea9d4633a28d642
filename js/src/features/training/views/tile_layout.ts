// Parameters as tiles: one for each kernel of a convolution, one for each row of a matrix, one for a vector.
import type { Network } from "../../../network/network.ts";
import { NON_FINITE_COLOR } from "../../../pictures/colortables.ts";
import type { PlanHeader } from "../../../plan/schema.ts";
import { type Kernels, kernelStart, kernelsOf } from "../../../views/layer_weights.ts";

/** The tiles of a parameter; each shows consecutive elements. */
export interface Tiling {
  /** Index of each tile's first element. */
  readonly starts: readonly number[];
  /** Number of elements in a tile, and number of its columns. */
  readonly tileSize: number;
  readonly columns: number;
  /** "filters", "rows"; "" for a vector. */
  readonly noun: string;
  /** Additional information: "for the first input channel". */
  readonly note: string;
  /** "filter 3 · y 0, x 1": the position of a tile's element. */
  describeTileElement(tile: number, element: number): string;
}

/** Longer vectors wrap into several lines. */
const VECTOR_COLUMNS = 64;

/** The tiling of a parameter; a name that the Plan doesn't have is tiled as a vector. */
export function parameterTiling(
  plan: PlanHeader | null,
  network: Network,
  name: string,
  length: number,
): Tiling {
  const shape = network.parameters.get(name)?.shape ?? [length];
  const layer = network.layers.find((one) => name.startsWith(`${one.name}.`));
  const kernels = plan !== null && layer ? kernelsOf(plan, network, layer) : null;
  if (kernels?.weight.key === name && shape.length > 2) return kernelTiles(kernels);
  if (shape.length > 2) return lastAxesTiles(shape);
  if (shape.length === 2) return rowTiles(shape[0] ?? 1, shape[1] ?? 1);
  return {
    starts: [0],
    tileSize: length,
    columns: Math.min(length, VECTOR_COLUMNS),
    noun: "",
    note: "",
    describeTileElement: (_, k) => (length === 1 ? "" : `channel ${k}`),
  };
}

const describeFilterElement = (columns: number) => (tile: number, k: number) =>
  `filter ${tile} · y ${Math.floor(k / columns)}, x ${k % columns}`;

/** One tile for each output channel; if there is a single output channel, one for each input channel. */
function kernelTiles(kernels: Kernels): Tiling {
  const { outputCount, inputCount, height, width } = kernels;
  const single = outputCount === 1 && inputCount > 1;
  const starts = Array.from({ length: single ? inputCount : outputCount }, (_, k) =>
    single ? kernelStart(kernels, 0, k) : kernelStart(kernels, k, 0),
  );
  const note = !single && inputCount > 1 ? "for the first input channel" : "";
  return {
    starts,
    tileSize: height * width,
    columns: width,
    noun: "filters",
    note,
    describeTileElement: describeFilterElement(width),
  };
}

/** Tiles of a weight whose layer is not a known convolution: its last two axes. */
function lastAxesTiles(shape: readonly number[]): Tiling {
  const columns = shape.at(-1) ?? 1;
  const tileSize = columns * (shape.at(-2) ?? 1);
  const count = shape.slice(0, -2).reduce((product, one) => product * one, 1);
  const starts = Array.from({ length: count }, (_, k) => k * tileSize);
  return {
    starts,
    tileSize,
    columns,
    noun: "filters",
    note: "",
    describeTileElement: describeFilterElement(columns),
  };
}

/** Tiles of a matrix: one per row, wrapped to be as square as possible. */
function rowTiles(outputs: number, inputs: number): Tiling {
  const columns = Math.ceil(Math.sqrt(inputs));
  const lines = Math.ceil(inputs / columns);
  return {
    starts: Array.from({ length: outputs }, (_, k) => k * inputs),
    tileSize: inputs,
    columns,
    noun: "rows",
    note: lines > 1 ? `${inputs} inputs in ${lines} lines` : "",
    describeTileElement: (tile, k) => `output ${tile} · input ${k}`,
  };
}

/** Tiles in an available area: their number, the number per line, and the pixels per element. */
export interface TileLayout {
  readonly tileCount: number;
  readonly perRow: number;
  readonly cellSize: number;
}

/**
 * The largest cell size up to `maxCellSize` at which all tiles fit. If none does, use `minCellSize` and show as many
 * tiles as fit.
 */
export function fitTiles(
  { starts, tileSize, columns }: Tiling,
  availableSize: { readonly width: number; readonly height: number },
  gap: number,
  minCellSize: number,
  maxCellSize: number,
): TileLayout {
  const lines = Math.ceil(tileSize / columns);
  const at = (one: number) => {
    const across = Math.max(
      1,
      Math.floor((availableSize.width - 2 * HAIRLINE + gap) / (columns * one + gap)),
    );
    const down = Math.max(
      1,
      Math.floor((availableSize.height - 2 * HAIRLINE + gap) / (lines * one + gap)),
    );
    return { across, down };
  };
  for (let cellSize = Math.max(minCellSize, maxCellSize); cellSize >= minCellSize; cellSize--) {
    const { across, down } = at(cellSize);
    if (columns * cellSize + 2 * HAIRLINE > availableSize.width && cellSize > 1) continue;
    if (cellSize > minCellSize && across * down < starts.length) continue;
    const tileCount = Math.min(starts.length, across * down);
    // Balance the lines, so that none is much shorter than the others.
    const even = Math.ceil(tileCount / Math.ceil(tileCount / across));
    return { tileCount, perRow: tileCount < starts.length ? across : even, cellSize };
  }
  return { tileCount: 1, perRow: 1, cellSize: 1 };
}

/** The largest finite magnitude in the first `count` tiles. */
export function maxTileValue(
  values: Float32Array,
  { starts, tileSize }: Tiling,
  count = starts.length,
): number {
  let maxMagnitude = 0;
  for (const start of starts.slice(0, count)) {
    for (let k = start; k < start + tileSize; k++) {
      const one = Math.abs(values[k] ?? 0);
      if (one > maxMagnitude && one < Number.POSITIVE_INFINITY) maxMagnitude = one;
    }
  }
  return maxMagnitude;
}

/** Width in pixels of the outline drawn in the gap around each tile: a tile of zeros has the page's colour. */
export const HAIRLINE = 1;

type ColorLookup = (position: number) => readonly [number, number, number];
const BLACK = [0, 0, 0] as const;

/**
 * Paint tiles with a colour map that saturates at ±`maxMagnitude`; NaN is striped and infinity is magenta, as in the
 * maps.
 */
export function paintTiles(
  picture: ImageData,
  values: Float32Array,
  { starts, tileSize, columns }: Tiling,
  { tileCount, perRow, cellSize }: TileLayout,
  gap: number,
  maxMagnitude: number,
  colors: ColorLookup,
): void {
  const lines = Math.ceil(tileSize / columns);
  for (let tile = 0; tile < tileCount; tile++) {
    const left = HAIRLINE + (tile % perRow) * (columns * cellSize + gap);
    const top = HAIRLINE + Math.floor(tile / perRow) * (lines * cellSize + gap);
    for (let k = 0; k < tileSize; k++) {
      const value = values[(starts[tile] ?? 0) + k] ?? 0;
      const shade = Number.isFinite(value)
        ? colors(maxMagnitude > 0 ? 0.5 + (0.5 * value) / maxMagnitude : 0.5)
        : NON_FINITE_COLOR;
      const [x0, y0] = [left + (k % columns) * cellSize, top + Math.floor(k / columns) * cellSize];
      for (let y = y0; y < y0 + cellSize; y++) {
        for (let x = x0; x < x0 + cellSize; x++) {
          const [r, g, b] = Number.isNaN(value) && (x + y) % 4 < 2 ? BLACK : shade;
          picture.data.set([r, g, b, 255], (y * picture.width + x) * 4);
        }
      }
    }
  }
}
