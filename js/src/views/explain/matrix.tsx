// A grid of numbers, each cell in the colour of its number: patches, filters and products.
import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { TapState } from "../../explain/window.ts";
import { formatExact, formatPadded, formatShort } from "../../number_format.ts";
import { textColorOn } from "../colors.ts";
import { pointerPosition, useViews } from "../context.ts";
import { px } from "../layout.ts";
import { WordBreak } from "../word_break.tsx";

type Rgb = readonly [number, number, number];

export interface MatrixCell {
  readonly value: number;
  /** The tap's state; cells outside the map are hatched. */
  readonly state?: TapState;
  /** A ring around the cell, or a line through it. */
  readonly mark?: "ring" | "struck";
  /** The cell has no number. */
  readonly empty?: boolean;
  /** For padding that repeats the map: the name of the repeated pixel. */
  readonly repeatedPixel?: string | undefined;
}

export interface MatrixProps {
  /** The name for screen readers. */
  label: string;
  columns: number;
  /** CSS pixels of a cell; numbers are shown from MIN_NUMBER_CELL on. */
  cellSide: number;
  cells: readonly MatrixCell[];
  color: (value: number) => Rgb;
  /** The cell under the pointer, shared by the matrices of one equation. */
  hoveredCell?: Signal<number | null>;
  /** The tooltip's second line. */
  cellTooltip?: (i: number) => string;
}

/** The least cell size that has room for a number. */
export const MIN_NUMBER_CELL = 34;
/** Cells below PRECISE show one decimal less; cells below LARGE have a smaller font. */
const MIN_THREE_DECIMAL_CELL = 44;
const MIN_LARGE_FONT_CELL = 50;

/** The number with as many digits as the cell has room for. */
export function cellText(value: number, cellSide: number): string {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (!Number.isFinite(value) || size >= 9999.5) return formatShort(value);
  const decimals =
    (cellSide >= MIN_THREE_DECIMAL_CELL ? 3 : 2) -
    (size >= 9.995 ? 1 : 0) -
    (size >= 99.95 ? 1 : 0);
  return formatPadded(value, Math.max(0, decimals));
}

export function Matrix(props: MatrixProps) {
  const { label, columns, cellSide, cells, color, hoveredCell, cellTooltip } = props;
  const views = useViews();
  const over = hoveredCell?.value ?? null;
  const point = (event: PointerEvent): void => {
    const found = event.target instanceof Element ? event.target.closest("td") : null;
    const i = Number(found?.dataset.i ?? Number.NaN);
    const value = cells[i]?.value;
    if (hoveredCell) hoveredCell.value = value === undefined ? null : i;
    views.tooltip.value =
      value === undefined
        ? null
        : {
            title: formatExact(value),
            text: cellTooltip?.(i) ?? "",
            ...pointerPosition(event, views),
          };
  };
  const leave = (): void => {
    if (hoveredCell) hoveredCell.value = null;
    views.tooltip.value = null;
  };
  const rows: (readonly MatrixCell[])[] = [];
  for (let i = 0; i < cells.length; i += columns) rows.push(cells.slice(i, i + columns));
  return (
    <table
      class={cellSide < MIN_LARGE_FONT_CELL ? "nbg-matrix nbg-small" : "nbg-matrix"}
      aria-label={label}
      style={{ width: px(columns * cellSide), height: px(rows.length * cellSide) }}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={leave}
    >
      <tbody>
        {rows.map((row, j) => (
          <tr key={j}>
            {row.map((one, k) => {
              const i = j * columns + k;
              return (
                <Td
                  key={k}
                  i={i}
                  matrixCell={one}
                  cellSide={cellSide}
                  color={color}
                  isHovered={over === i}
                />
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Td(props: {
  i: number;
  matrixCell: MatrixCell;
  cellSide: number;
  color: (value: number) => Rgb;
  isHovered: boolean;
}) {
  const { i, matrixCell, cellSide, color, isHovered } = props;
  const { value, state = "input", mark } = matrixCell;
  const odd = Number.isNaN(value) ? "nbg-nan" : Number.isFinite(value) ? "" : "nbg-inf";
  const painted = color(value);
  const classes = [
    odd,
    state === "input" ? "" : "nbg-hatched",
    mark === undefined ? "" : `nbg-${mark}`,
    matrixCell.repeatedPixel === undefined ? "" : "nbg-repeated",
    isHovered ? "nbg-linked" : "",
  ].filter((one) => one !== "");
  const plainly = state === "input" && odd === "";
  const style = plainly
    ? { background: `rgb(${painted.join(" ")})`, color: textColorOn(painted) }
    : {};
  return (
    <td
      data-i={i}
      data-state={state}
      data-from={matrixCell.repeatedPixel}
      class={classes.join(" ")}
      style={style}
    >
      {matrixCell.empty !== true && (
        <data value={String(value)}>
          {cellSide >= MIN_NUMBER_CELL ? cellText(value, cellSide) : ""}
        </data>
      )}
    </td>
  );
}

/** A picture or matrix with a caption: a title and details. */
export function Figure(props: {
  title: string;
  text?: string;
  /** Text that does not wrap. */
  unbrokenText?: string;
  children: ComponentChildren;
}) {
  const { title, text = "", unbrokenText = "", children } = props;
  return (
    <figure class="nbg-figure">
      <figcaption>
        <strong>
          <WordBreak text={title} />
        </strong>{" "}
        <span class="nbg-second">
          <WordBreak text={unbrokenText === "" || text === "" ? text : `${text},`} />
        </span>{" "}
        {unbrokenText !== "" && <span class="nbg-second nbg-whole">{unbrokenText}</span>}
      </figcaption>
      {children}
    </figure>
  );
}

/** The operator between two figures of a row. */
export const OperatorSign = ({ children }: { children: string }) => (
  <span class="nbg-sign">{children}</span>
);
