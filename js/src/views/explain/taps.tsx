// Patch × filter = products: matrices beside each other, those of one row with their curves.
import type { Signal } from "@preact/signals";
import type { Patch } from "../../explain/products.ts";
import { exact, fixed } from "../../format.ts";
import { largest } from "../layout.ts";
import type { Color } from "./colors.ts";
import { type Cell, cellText, Figure, Matrix, NUMBERED, Sign } from "./matrix.tsx";
import { told } from "./number.tsx";

/** CSS pixels of a sign, and of a caption: as wide as a picture or a matrix is at least. */
const SIGN = 28;
export const CAPTION = 112;
/** A larger kernel is told by its channels alone. */
export const MOST_TAPS = 1024;

/** The cell at which so many matrices fit beside each other, captions and signs included; 0 if none does. */
export function cellSize(room: number, rows: number, columns: number, times: number): number {
  const each = (room - (times - 1) * SIGN) / times;
  return each < CAPTION
    ? 0
    : Math.max(6, Math.min(54, Math.floor(each / columns), Math.floor(300 / rows)));
}

/** Beside each other where numbers can be read then, else one below the other. */
export function cellIn(room: number, rows: number, columns: number, times: number) {
  const [beside, stacked] = [times, 1].map((count) => cellSize(room, rows, columns, count));
  const way = (beside ?? 0) >= Math.min(NUMBERED, stacked ?? 0) ? "beside" : "stacked";
  return { cell: (way === "beside" ? beside : stacked) ?? 6, way } as const;
}

export const inputs = (patch: Patch): Cell[] =>
  patch.cells.map(({ input, state, repeated }) => ({ value: input, state, repeated }));
export const weights = (patch: Patch): Cell[] =>
  patch.cells.map(({ weight }) => ({ value: weight }));
export const results = (patch: Patch): Cell[] =>
  patch.cells.map(({ product }) => ({ value: product }));

/** The tooltip of a product: how it came about; `border`: what padding does there. */
export const noteOf =
  (patch: Patch, border = "repeated") =>
  (i: number) => {
    const cell = patch.cells[i];
    if (cell === undefined) return "";
    const from = cell.repeated === undefined ? "" : ` · ${cell.repeated}, ${border} at the border`;
    return `${exact(cell.input)} × ${exact(cell.weight)} = ${exact(cell.product)}${from}`;
  };

export const mostOf = (cells: readonly Cell[]): number =>
  largest(cells.map(({ value }) => value)) || 1;

/** A matrix of an equation. */
export interface Term {
  readonly title: string;
  readonly text: string;
  /** What the cells add up to. */
  readonly sum?: number;
  readonly label: string;
  readonly cells: readonly Cell[];
  readonly color: Color;
}

/** "sum = 0.305", "sum ≈ 0.305" where the cells as they are shown add up to another one. */
function sumText({ cells, sum }: Term, cell: number): string {
  if (sum === undefined) return "";
  const shown = fixed(sum);
  const again = cells.reduce((all, { value }) => all + told(cellText(value, cell)), 0);
  const apart = Math.abs(again - told(shown)) > 1e-9 * Math.max(1, Math.abs(sum));
  return `sum ${cell >= NUMBERED && apart ? "≈" : "="} ${shown}`;
}

/** "=", or "≈" where the numbers as they are shown have another product somewhere. */
function productSign([a, b, c]: readonly Term[], cell: number): string {
  if (cell < NUMBERED || a === undefined || b === undefined || c === undefined) return "=";
  const read = (term: Term, i: number): number => told(cellText(term.cells[i]?.value ?? 0, cell));
  const same = c.cells.every(({ value }, i) => {
    const text = cellText(value, cell);
    return !Number.isFinite(value) || cellText(read(a, i) * read(b, i), cell) === text;
  });
  return same ? "=" : "≈";
}

/** Terms with signs between them: a × b = c. */
export function Equation(props: {
  terms: readonly Term[];
  columns: number;
  cell: number;
  /** Over neighbours along a line: with curves. */
  flat?: boolean;
  linked: Signal<number | null>;
  note: (i: number) => string;
}) {
  const { terms, columns, flat = false, ...shared } = props;
  return (
    <div class="nbg-equation">
      {terms.map((term, k) => {
        const { title, text, label, cells, color } = term;
        return (
          <>
            {k > 0 && <Sign>{k === 1 ? "×" : productSign(terms, props.cell)}</Sign>}
            <Figure key={label} title={title} text={text} whole={sumText(term, props.cell)}>
              <div>
                {flat && columns > 1 && <Stems cells={cells} cell={props.cell} />}
                <Matrix {...shared} {...{ label, cells, color }} columns={Math.max(1, columns)} />
              </div>
            </Figure>
          </>
        );
      })}
    </div>
  );
}

const STEMS = 72;

/** A row of numbers as a curve over its cells, each number a dot above its own. */
function Stems({ cells, cell }: { cells: readonly Cell[]; cell: number }) {
  const values = cells.map(({ value }) => (Number.isFinite(value) ? value : 0));
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const up = (y: number): number => STEMS - 6 - ((y - low) / (high - low || 1)) * (STEMS - 12);
  const at = (i: number): number => (i + 0.5) * cell;
  const points = values.map((value, i) => `${at(i)} ${up(value)}`);
  const stems = values.map((value, i) => `M${at(i)} ${up(0)}V${up(value)}`);
  return (
    <svg class="nbg-curve nbg-stems" width={cell * cells.length} height={STEMS} aria-hidden="true">
      <path class="nbg-zero" d={`M0 ${up(0)}H${cell * cells.length}${stems.join("")}`} />
      <path class="nbg-line-of" d={`M${points.join("L")}`} />
      {values.map((value, i) => (
        <circle key={i} class="nbg-dot" cx={at(i)} cy={up(value)} r="3" />
      ))}
    </svg>
  );
}
