// Patch × filter = products: matrices side by side; those with a single row also have curves.
import type { Signal } from "@preact/signals";
import type { ChannelProducts } from "../../explain/products.ts";
import { formatExact, formatFixed } from "../../number_format.ts";
import { maxAbs } from "../layout.ts";
import type { ColorFunction } from "./colors.ts";
import {
  cellText,
  Figure,
  Matrix,
  type MatrixCell,
  MIN_NUMBER_CELL,
  OperatorSign,
} from "./matrix.tsx";
import { parseDisplayedNumber } from "./number.tsx";

/** CSS pixels of an operator sign, and of a caption, which is the least width of a picture or matrix. */
const SIGN_WIDTH = 28;
export const CAPTION_WIDTH = 112;
/** Kernels with more taps than this are explained by their channel contributions only. */
export const MAX_TAPS = 1024;

/** The cell size at which this many matrices fit side by side, captions and signs included; 0 if they do not fit. */
export function cellSize(room: number, rows: number, columns: number, matrixCount: number): number {
  const each = (room - (matrixCount - 1) * SIGN_WIDTH) / matrixCount;
  return each < CAPTION_WIDTH
    ? 0
    : Math.max(6, Math.min(54, Math.floor(each / columns), Math.floor(300 / rows)));
}

/** Side by side if cells are then large enough for numbers, else stacked. */
export function cellLayout(room: number, rows: number, columns: number, matrixCount: number) {
  const [beside, stacked] = [matrixCount, 1].map((count) => cellSize(room, rows, columns, count));
  const way = (beside ?? 0) >= Math.min(MIN_NUMBER_CELL, stacked ?? 0) ? "beside" : "stacked";
  return { cell: (way === "beside" ? beside : stacked) ?? 6, way } as const;
}

export const inputCells = (patch: ChannelProducts): MatrixCell[] =>
  patch.cells.map(({ input, state, repeatedPixel }) => ({
    value: input,
    state,
    repeatedPixel,
  }));
export const weightCells = (patch: ChannelProducts): MatrixCell[] =>
  patch.cells.map(({ weight }) => ({ value: weight }));
export const productCells = (patch: ChannelProducts): MatrixCell[] =>
  patch.cells.map(({ product }) => ({ value: product }));

/** The tooltip of a product: its factors; `border` describes the padding mode. */
export const productTooltip =
  (patch: ChannelProducts, border = "repeated") =>
  (i: number) => {
    const cell = patch.cells[i];
    if (cell === undefined) return "";
    const from =
      cell.repeatedPixel === undefined ? "" : ` · ${cell.repeatedPixel}, ${border} at the border`;
    return `${formatExact(cell.input)} × ${formatExact(cell.weight)} = ${formatExact(cell.product)}${from}`;
  };

export const maxAbsCell = (cells: readonly MatrixCell[]): number =>
  maxAbs(cells.map(({ value }) => value)) || 1;

/** One matrix of an equation. */
export interface EquationTerm {
  readonly title: string;
  readonly text: string;
  /** The sum of the cells. */
  readonly sum?: number;
  readonly label: string;
  readonly cells: readonly MatrixCell[];
  readonly color: ColorFunction;
}

/** "sum = 0.305", or "sum ≈ 0.305" if the rounded cells add up to a different number. */
function sumText({ cells, sum }: EquationTerm, cellSide: number): string {
  if (sum === undefined) return "";
  const shown = formatFixed(sum);
  const roundedSum = cells.reduce(
    (all, { value }) => all + parseDisplayedNumber(cellText(value, cellSide)),
    0,
  );
  const isDifferent =
    Math.abs(roundedSum - parseDisplayedNumber(shown)) > 1e-9 * Math.max(1, Math.abs(sum));
  return `sum ${cellSide >= MIN_NUMBER_CELL && isDifferent ? "≈" : "="} ${shown}`;
}

/** "=", or "≈" if some product differs from the product of the rounded factors. */
function productSign([a, b, c]: readonly EquationTerm[], cellSide: number): string {
  if (cellSide < MIN_NUMBER_CELL || a === undefined || b === undefined || c === undefined)
    return "=";
  const read = (term: EquationTerm, i: number): number =>
    parseDisplayedNumber(cellText(term.cells[i]?.value ?? 0, cellSide));
  const same = c.cells.every(({ value }, i) => {
    const text = cellText(value, cellSide);
    return !Number.isFinite(value) || cellText(read(a, i) * read(b, i), cellSide) === text;
  });
  return same ? "=" : "≈";
}

/** Matrices with operator signs between them: a × b = c. */
export function Equation(props: {
  terms: readonly EquationTerm[];
  columns: number;
  cellSide: number;
  /** One-dimensional terms: a curve is drawn above each. */
  is1d?: boolean;
  hoveredCell: Signal<number | null>;
  cellTooltip: (i: number) => string;
}) {
  const { terms, columns, is1d = false, ...shared } = props;
  return (
    <div class="nbg-equation">
      {terms.map((term, k) => {
        const { title, text, label, cells, color } = term;
        return (
          <>
            {k > 0 && (
              <OperatorSign>{k === 1 ? "×" : productSign(terms, props.cellSide)}</OperatorSign>
            )}
            <Figure
              key={label}
              title={title}
              text={text}
              unbrokenText={sumText(term, props.cellSide)}
            >
              <div>
                {is1d && columns > 1 && <StemPlot cells={cells} cellSide={props.cellSide} />}
                <Matrix {...shared} {...{ label, cells, color }} columns={Math.max(1, columns)} />
              </div>
            </Figure>
          </>
        );
      })}
    </div>
  );
}

const STEM_PLOT_HEIGHT = 72;

/** A row of numbers as a stem plot over its cells: each number is a dot above its cell. */
function StemPlot({ cells, cellSide }: { cells: readonly MatrixCell[]; cellSide: number }) {
  const values = cells.map(({ value }) => (Number.isFinite(value) ? value : 0));
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const up = (y: number): number =>
    STEM_PLOT_HEIGHT - 6 - ((y - low) / (high - low || 1)) * (STEM_PLOT_HEIGHT - 12);
  const at = (i: number): number => (i + 0.5) * cellSide;
  const points = values.map((value, i) => `${at(i)} ${up(value)}`);
  const stems = values.map((value, i) => `M${at(i)} ${up(0)}V${up(value)}`);
  return (
    <svg
      class="nbg-curve nbg-stems"
      width={cellSide * cells.length}
      height={STEM_PLOT_HEIGHT}
      aria-hidden="true"
    >
      <path class="nbg-zero" d={`M0 ${up(0)}H${cellSide * cells.length}${stems.join("")}`} />
      <path class="nbg-line-of" d={`M${points.join("L")}`} />
      {values.map((value, i) => (
        <circle key={i} class="nbg-dot" cx={at(i)} cy={up(value)} r="3" />
      ))}
    </svg>
  );
}
