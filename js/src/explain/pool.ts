// Which numbers a pool looks at for one of its own, and what becomes of them.
import type { Layer } from "../plan/schema.ts";
import { coordinates, element, type Tensor } from "./tensor.ts";
import {
  isAdaptive,
  type Line,
  type Lines,
  type State,
  shareLines,
  slidingLines,
  stateOf,
} from "./window.ts";

export interface Pooled {
  readonly kind: "max" | "mean" | "sum";
  readonly lines: Lines;
  readonly cells: readonly { readonly input: number; readonly state: State }[];
  /** Of a maximum: the cell that is passed on. */
  readonly winner: number;
  readonly sum: number;
  /** Of a mean: what the sum is divided by; of a sum 1. */
  readonly divisor: number;
  readonly value: number;
}

const KINDS: Readonly<Partial<Record<Layer["explains"], Pooled["kind"]>>> = {
  "max pool": "max",
  "mean pool": "mean",
  "sum pool": "sum",
};

/** Of maps and lines; null for volumes. */
export function pool(layer: Layer, x: Tensor, index: number): Pooled | null {
  const kind = KINDS[layer.explains];
  const at = coordinates(layer.output_shape, index);
  const spatial = x.shape.slice(2);
  if (kind === undefined || spatial.length < 1 || spatial.length > 2) return null;
  const lines = linesOf(layer, spatial, at);
  if (lines === null) return null;
  const [image = 0, channel = 0] = at;
  const across = spatial.at(-1) ?? 1;
  const size = spatial.reduce((product, length) => product * length, 1);
  const start = (image * (x.shape[1] ?? 1) + channel) * size;
  const cells = lines.rows.flatMap((row) =>
    lines.columns.map((column) => {
      const state = stateOf(row, column);
      const input = state === "input" ? element(x.data, start + row.at * across + column.at) : 0;
      return { input, state };
    }),
  );
  const inside = cells.filter((cell) => cell.state === "input");
  const sum = inside.reduce((total, cell) => total + cell.input, 0);
  const winner = largestOf(cells);
  const count = layer.attributes.count_include_pad === 1 ? padded(layer, x, lines) : inside.length;
  const divisor = kind === "sum" ? 1 : count;
  const value = kind === "max" ? (cells[winner]?.input ?? -Infinity) : sum / divisor;
  return { kind, lines, cells, winner, sum, divisor, value };
}

function linesOf(layer: Layer, spatial: readonly number[], at: readonly number[]): Lines | null {
  if (isAdaptive(layer)) return shareLines(spatial, layer.output_shape.slice(2), at);
  if (layer.window.kernel.length === 0) return whole(spatial);
  return slidingLines(layer.window, spatial, at);
}

/** The first largest; a NaN is larger than any number, as in PyTorch. */
function largestOf(cells: Pooled["cells"]): number {
  let best = -1;
  for (const [i, { input, state }] of cells.entries()) {
    if (state !== "input") continue;
    const most = cells[best]?.input;
    if (most === undefined || input > most || (Number.isNaN(input) && !Number.isNaN(most)))
      best = i;
  }
  return best;
}

function whole(spatial: readonly number[]): Lines {
  const lines = (size: number): Line[] =>
    Array.from({ length: size }, (_, tap) => ({ tap, at: tap, state: "input" }));
  return {
    rows: lines(spatial.length > 1 ? (spatial[0] ?? 1) : 1),
    columns: lines(spatial.at(-1) ?? 1),
  };
}

/** Taps in the map or its padding; ceil_mode may have some behind both, which count for nothing. */
function padded(layer: Layer, x: Tensor, { rows, columns }: Lines): number {
  const spatial = x.shape.slice(2);
  const count = (lines: readonly Line[], axis: number): number => {
    const size = spatial.at(axis) ?? 1;
    const end = layer.window.ends.at(axis) ?? 0;
    return lines.filter((line) => line.at < size + end).length;
  };
  return count(columns, -1) * (spatial.length > 1 ? count(rows, -2) : 1);
}
