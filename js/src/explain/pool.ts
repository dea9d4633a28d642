// Pooling explained: the elements in the window, and the pooled result.
import type { Layer } from "../plan/schema.ts";
import { coordinates, element, type Tensor } from "./tensor.ts";
import {
  type AxisTap,
  adaptiveTaps,
  isAdaptivePool,
  slidingTaps,
  type TapState,
  tapState,
  type WindowTaps,
} from "./window.ts";

export interface PoolWindow {
  readonly kind: "max" | "mean" | "sum";
  readonly taps: WindowTaps;
  readonly cells: readonly { readonly input: number; readonly state: TapState }[];
  /** For a maximum: the index of the cell that is passed on. */
  readonly argmax: number;
  readonly sum: number;
  /** For a mean: the divisor of the sum; for a sum: 1. */
  readonly divisor: number;
  readonly value: number;
}

const POOL_KINDS: Readonly<Partial<Record<Layer["explanation"], PoolWindow["kind"]>>> = {
  "max pool": "max",
  "mean pool": "mean",
  "sum pool": "sum",
};

/** The window of a pool over 1D or 2D maps; null for volumes. */
export function poolWindow(layer: Layer, x: Tensor, index: number): PoolWindow | null {
  const kind = POOL_KINDS[layer.explanation];
  const at = coordinates(layer.output_shape, index);
  const spatial = x.shape.slice(2);
  if (kind === undefined || spatial.length < 1 || spatial.length > 2) return null;
  const taps = poolTaps(layer, spatial, at);
  if (taps === null) return null;
  const [image = 0, channel = 0] = at;
  const across = spatial.at(-1) ?? 1;
  const size = spatial.reduce((product, length) => product * length, 1);
  const start = (image * (x.shape[1] ?? 1) + channel) * size;
  const cells = taps.rows.flatMap((row) =>
    taps.columns.map((column) => {
      const state = tapState(row, column);
      const input =
        state === "input"
          ? element(x.data, start + row.inputIndex * across + column.inputIndex)
          : 0;
      return { input, state };
    }),
  );
  const inside = cells.filter((cell) => cell.state === "input");
  const sum = inside.reduce((total, cell) => total + cell.input, 0);
  const argmax = argmaxCell(cells);
  const count =
    layer.attributes.count_include_pad === 1 ? countTapsWithPadding(layer, x, taps) : inside.length;
  const divisor = kind === "sum" ? 1 : count;
  const value = kind === "max" ? (cells[argmax]?.input ?? -Infinity) : sum / divisor;
  return { kind, taps, cells, argmax, sum, divisor, value };
}

function poolTaps(
  layer: Layer,
  spatial: readonly number[],
  coords: readonly number[],
): WindowTaps | null {
  if (isAdaptivePool(layer)) return adaptiveTaps(spatial, layer.output_shape.slice(2), coords);
  if (layer.window.kernel.length === 0) return globalTaps(spatial);
  return slidingTaps(layer.window, spatial, coords);
}

/** The index of the first maximum; a NaN exceeds any number, as in PyTorch. */
function argmaxCell(cells: PoolWindow["cells"]): number {
  let best = -1;
  for (const [i, { input, state }] of cells.entries()) {
    if (state !== "input") continue;
    const most = cells[best]?.input;
    if (most === undefined || input > most || (Number.isNaN(input) && !Number.isNaN(most)))
      best = i;
  }
  return best;
}

function globalTaps(spatial: readonly number[]): WindowTaps {
  const lines = (size: number): AxisTap[] =>
    Array.from({ length: size }, (_, tap) => ({ tap, inputIndex: tap, state: "input" }));
  return {
    rows: lines(spatial.length > 1 ? (spatial[0] ?? 1) : 1),
    columns: lines(spatial.at(-1) ?? 1),
  };
}

/** Count the taps in the map or its padding. With ceil_mode, taps beyond both don't count. */
function countTapsWithPadding(layer: Layer, x: Tensor, { rows, columns }: WindowTaps): number {
  const spatial = x.shape.slice(2);
  const count = (lines: readonly AxisTap[], axis: number): number => {
    const size = spatial.at(axis) ?? 1;
    const end = layer.window.pads_end.at(axis) ?? 0;
    return lines.filter((line) => line.inputIndex < size + end).length;
  };
  return count(columns, -1) * (spatial.length > 1 ? count(rows, -2) : 1);
}
