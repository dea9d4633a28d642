// Numbers in a grid, each cell in the colour of its number: patches, filters and products.
import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { State } from "../../explain/window.ts";
import { exact, plain, short } from "../../format.ts";
import { inkOn } from "../colors.ts";
import { placeOf, useViews } from "../context.ts";
import { px } from "../layout.ts";
import { Soft } from "../soft.tsx";

type Rgb = readonly [number, number, number];

export interface Cell {
  readonly value: number;
  /** Cells outside of the map are hatched. */
  readonly state?: State;
  /** A ring around the cell, or a line through it. */
  readonly mark?: "ring" | "struck";
  /** No number stands there at all. */
  readonly empty?: boolean;
  /** Padding that repeats the map: which of its pixels this is. */
  readonly repeated?: string | undefined;
}

export interface MatrixProps {
  /** What it is, for a screen reader. */
  label: string;
  columns: number;
  /** CSS pixels of a cell; numbers are written from NUMBERED on. */
  cell: number;
  cells: readonly Cell[];
  color: (value: number) => Rgb;
  /** The cell under the pointer, shared by matrices whose cells belong together. */
  linked?: Signal<number | null>;
  /** The tooltip's second line. */
  note?: (i: number) => string;
}

/** From here on a cell has room for its number. */
export const NUMBERED = 34;
/** Smaller cells have fewer decimals; cells a little larger have smaller letters. */
const PRECISE = 44;
const LARGE = 50;

/** As many digits as a cell has room for. */
export function cellText(value: number, cell: number): string {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (!Number.isFinite(value) || size >= 9999.5) return short(value);
  const decimals = (cell >= PRECISE ? 3 : 2) - (size >= 9.995 ? 1 : 0) - (size >= 99.95 ? 1 : 0);
  return plain(value, Math.max(0, decimals));
}

export function Matrix(props: MatrixProps) {
  const { label, columns, cell, cells, color, linked, note } = props;
  const views = useViews();
  const over = linked?.value ?? null;
  const point = (event: PointerEvent): void => {
    const found = event.target instanceof Element ? event.target.closest("td") : null;
    const i = Number(found?.dataset.i ?? Number.NaN);
    const value = cells[i]?.value;
    if (linked) linked.value = value === undefined ? null : i;
    views.note.value =
      value === undefined
        ? null
        : { title: exact(value), text: note?.(i) ?? "", ...placeOf(event, views) };
  };
  const leave = (): void => {
    if (linked) linked.value = null;
    views.note.value = null;
  };
  const rows: (readonly Cell[])[] = [];
  for (let i = 0; i < cells.length; i += columns) rows.push(cells.slice(i, i + columns));
  return (
    <table
      class={cell < LARGE ? "nbg-matrix nbg-small" : "nbg-matrix"}
      aria-label={label}
      style={{ width: px(columns * cell), height: px(rows.length * cell) }}
      onPointerMove={point}
      onPointerDown={point}
      onPointerLeave={leave}
    >
      <tbody>
        {rows.map((row, j) => (
          <tr key={j}>
            {row.map((one, k) => {
              const i = j * columns + k;
              return <Td key={k} i={i} one={one} cell={cell} color={color} over={over === i} />;
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Td(props: {
  i: number;
  one: Cell;
  cell: number;
  color: (value: number) => Rgb;
  over: boolean;
}) {
  const { i, one, cell, color, over } = props;
  const { value, state = "input", mark } = one;
  const odd = Number.isNaN(value) ? "nbg-nan" : Number.isFinite(value) ? "" : "nbg-inf";
  const painted = color(value);
  const classes = [
    odd,
    state === "input" ? "" : "nbg-hatched",
    mark === undefined ? "" : `nbg-${mark}`,
    one.repeated === undefined ? "" : "nbg-repeated",
    over ? "nbg-linked" : "",
  ].filter((one) => one !== "");
  const plainly = state === "input" && odd === "";
  const style = plainly ? { background: `rgb(${painted.join(" ")})`, color: inkOn(painted) } : {};
  return (
    <td
      data-i={i}
      data-state={state}
      data-from={one.repeated}
      class={classes.join(" ")}
      style={style}
    >
      {one.empty !== true && (
        <data value={String(value)}>{cell >= NUMBERED ? cellText(value, cell) : ""}</data>
      )}
    </td>
  );
}

/** A picture or matrix under a caption: what it is, and its particulars. */
export function Figure(props: {
  title: string;
  text?: string;
  /** Words that stay on one line. */
  whole?: string;
  children: ComponentChildren;
}) {
  const { title, text = "", whole = "", children } = props;
  return (
    <figure class="nbg-figure">
      <figcaption>
        <strong>
          <Soft text={title} />
        </strong>{" "}
        <span class="nbg-second">
          <Soft text={whole === "" || text === "" ? text : `${text},`} />
        </span>{" "}
        {whole !== "" && <span class="nbg-second nbg-whole">{whole}</span>}
      </figcaption>
      {children}
    </figure>
  );
}

/** Between two figures of a row. */
export const Sign = ({ children }: { children: string }) => (
  <span class="nbg-sign">{children}</span>
);
