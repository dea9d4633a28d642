// Weights in rows and columns for the editor: a kernel, a matrix, or one number per channel.

import type { Value } from "../../plan/schema.ts";
import type { WeightEdit } from "../../state/edits.ts";
import { inputChannelOf, type Kernels, kernelStart } from "../layer_weights.ts";

export interface WeightSheet {
  readonly title: string;
  /** "3×3"; "" if the heading above contains it. */
  readonly shapeText: string;
  readonly rows: number;
  readonly columns: number;
  /** The nouns for columns and rows. */
  readonly columnLabel: string;
  readonly rowLabel: string;
  /** The index of a weight among the parameter's elements. */
  index(row: number, column: number): number;
  /** The weight's name, e.g. "kernel 3, input 1, row 2, column 0". */
  elementText(row: number, column: number): string;
  /** The filter that contains a row: the unit for scale, zero and reset. */
  filter(row: number): Filter;
}

/** Weights that belong together: all weights of one output channel. */
export interface Filter {
  readonly title: string;
  /** Indices among the parameter's elements, ascending. */
  readonly indices: readonly number[];
}

/** The kernel of an output channel for the k-th input channel that it reads. */
export function kernelSheet(kernels: Kernels, output: number, inputIndex: number): WeightSheet {
  const { height, width, inputCount } = kernels;
  const { shape } = kernels.weight;
  // For a volume: slices, one below the other.
  const slice = shape.length > 4 ? (shape.at(-2) ?? 1) : height;
  const rowWords = (row: number): string =>
    slice < height ? `slice ${Math.floor(row / slice)}, row ${row % slice}` : `row ${row}`;
  const from = inputChannelOf(kernels, output, inputIndex);
  const start = kernelStart(kernels, output, inputIndex);
  return {
    title: inputCount > 1 ? `Kernel ${output}, input ${from}` : `Kernel ${output}`,
    shapeText: shape.slice(2).join("×"),
    rows: height,
    columns: width,
    columnLabel: "column",
    rowLabel: "row",
    index: (row, column) => start + row * width + column,
    elementText: (row, column) =>
      `kernel ${output}, input ${from}, ${rowWords(row)}, column ${column}`,
    filter: () => ({
      title: `Filter ${output}`,
      indices: Array.from({ length: inputCount }, (_, input) =>
        indexRange(kernelStart(kernels, output, input), height * width),
      )
        .flat()
        .sort((a, b) => a - b),
    }),
  };
}

/** A linear layer's weight: a row per output, a column per input. */
export function matrixSheet({ outputCount, width }: Kernels): WeightSheet {
  return {
    title: "Matrix",
    shapeText: `${outputCount}×${width}`,
    rows: outputCount,
    columns: width,
    columnLabel: "input",
    rowLabel: "output",
    index: (row, column) => row * width + column,
    elementText: (row, column) => `output ${row}, input ${column}`,
    filter: (row) => ({ title: `Output ${row}`, indices: indexRange(row * width, width) }),
  };
}

/** One number per channel; `parameterName` names the parameter. */
export function vectorSheet(length: number, parameterName: string): WeightSheet {
  return {
    title: `${parameterName.slice(0, 1).toUpperCase()}${parameterName.slice(1)}`,
    shapeText: "",
    rows: 1,
    columns: length,
    columnLabel: "channel",
    rowLabel: "",
    index: (_, column) => column,
    elementText: (_, column) => `${parameterName} of channel ${column}`,
    filter: () => ({
      title: length === 1 ? "It" : `All ${length}`,
      indices: indexRange(0, length),
    }),
  };
}

const indexRange = (start: number, length: number): number[] =>
  Array.from({ length }, (_, k) => start + k);

/** More runs than this are merged into one edit that includes the unchanged elements between them. */
const MAX_EDIT_RUNS = 32;
/** The most numbers in one message: `SetWeight` in features/edits/messages.py. */
const MAX_NUMBERS_PER_MESSAGE = 2 ** 16;

/** Create the edits that set the elements at `indices` to `numbers`; `values` are the current elements. */
export function createWeightEdits(
  { key }: Value,
  values: Float32Array,
  indices: readonly number[],
  numbers: readonly number[],
  undoStep: string,
): WeightEdit[] {
  const order = indices.map((_, k) => k).sort((a, b) => (indices[a] ?? 0) - (indices[b] ?? 0));
  const runs: { index: number; values: number[] }[] = [];
  for (const k of order) {
    const [at = 0, number = 0] = [indices[k], numbers[k]];
    const last = runs.at(-1);
    const end = last === undefined ? -1 : last.index + last.values.length;
    if (end === at && last !== undefined && last.values.length < MAX_NUMBERS_PER_MESSAGE)
      last.values.push(number);
    else runs.push({ index: at, values: [number] });
  }
  const start = runs[0]?.index ?? 0;
  const last = runs.at(-1);
  const length = last === undefined ? 0 : last.index + last.values.length - start;
  if (runs.length <= MAX_EDIT_RUNS || length > MAX_NUMBERS_PER_MESSAGE) {
    return runs.map((run) => ({ name: key, ...run, step: undoStep }));
  }
  const whole = Array.from(values.subarray(start, start + length));
  if (!whole.every(Number.isFinite))
    return runs.map((run) => ({ name: key, ...run, step: undoStep }));
  for (const run of runs) {
    for (const [k, number] of run.values.entries()) whole[run.index - start + k] = number;
  }
  return [{ name: key, index: start, values: whole, step: undoStep }];
}

/** The Python statement that sets a weight. */
export function setWeightStatement(
  { key, shape }: Value,
  flatIndex: number,
  number: number,
): string {
  const index: number[] = [];
  let rest = flatIndex;
  for (const size of shape.toReversed()) {
    index.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  const where = index.length === 1 ? `${index[0]}` : `(${index.join(", ")})`;
  return `viewer.set_weight("${key}", ${where}, ${shortestFloat32(number)})`;
}

/** The shortest decimal that identifies this float32. */
function shortestFloat32(number: number): number {
  const same = (digits: number): boolean =>
    Math.fround(Number(number.toPrecision(digits))) === Math.fround(number);
  const digits = [1, 2, 3, 4, 5, 6, 7, 8].find(same) ?? 9;
  return Number(number.toPrecision(digits));
}

/** Parse a typed number; return the reason as a string if it is invalid. */
export function parseNumber(text: string): number | string {
  const plain = text.trim().replace("−", "-");
  const number = plain === "" ? Number.NaN : Number(plain);
  if (/^-?\d*,\d+$/.test(plain)) return `Use a decimal point: ${plain.replace(",", ".")}`;
  if (Number.isNaN(number))
    return plain === "" ? "Enter a number" : `“${text.trim()}” is not a number`;
  if (!Number.isFinite(Math.fround(number))) return "Too large for float32 (maximum 3.4e38)";
  return number;
}

/**
 * Parse a pasted rectangle of numbers, or return the reason that it is invalid. Lines are rows; tabs, commas or spaces
 * separate cells.
 */
export function parsePastedNumbers(text: string): number[][] | string {
  const lines = text
    .replace(/[[\]()]/g, " ")
    .trim()
    .split(/\s*\n\s*/);
  const rows: number[][] = [];
  for (const line of lines) {
    const row: number[] = [];
    for (const cell of line
      .replace(/[,;]\s*$/, "")
      .split(/\s*[\t,;]\s*|\s+/)
      .filter((one) => one !== "")) {
      const number = parseNumber(cell);
      if (typeof number === "string") return number;
      row.push(number);
    }
    if (row.length > 0) rows.push(row);
  }
  const [first] = rows;
  if (first === undefined) return "The pasted text has no numbers";
  const uneven = rows.find((row) => row.length !== first.length);
  return uneven === undefined
    ? rows
    : `The pasted rows differ in length: ${first.length} and ${uneven.length} values`;
}
