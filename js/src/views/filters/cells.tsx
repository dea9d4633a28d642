// A few of a parameter's weights as numbers that are dragged, stepped and typed: one grid, with one stop of the Tab key.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { exact, plain } from "../../format.ts";
import { createStepper, newStep } from "../../state/undo_steps.ts";
import { colorTable, inkOn } from "../colors.ts";
import { useViews } from "../context.ts";
import { px } from "../layout.ts";
import { drag, type Hand } from "./hand.ts";
import { differs } from "./originals.ts";
import { parsed, pasted, type Sheet } from "./sheet.ts";

/** CSS pixels of a number's cell. */
export const CELL = 52;
/** Rows at once: a kernel of 3×3×3 has nine. */
const MOST_ROWS = 9;
const MOST_COLUMNS = 12;
const MOST_LONG = 16;

export interface Place {
  readonly row: number;
  readonly column: number;
}

interface CellsProps {
  hand: Hand;
  sheet: Sheet;
  place: Place;
  go: (place: Place) => void;
  /** To the kernel before or after this one. */
  turn?: ((by: number) => void) | undefined;
  /** The value with the map's full colour. */
  most: number;
  width: number;
  /** The chosen number is being typed. */
  typing: boolean;
  type: (typing: boolean) => void;
  /** Says why something could not be. */
  say: (why: string) => void;
}

/** Where the page of `most` begins that has the k-th of `count`. */
function pageStart(k: number, count: number, most: number): number {
  return Math.max(0, Math.min(Math.floor(k / most) * most, count - most));
}

const range = (start: number, end: number): number[] =>
  Array.from({ length: Math.max(0, end - start) }, (_, k) => start + k);

export function Cells(props: CellsProps) {
  const { hand, sheet, place, go, turn, most, typing, type, say } = props;
  const views = useViews();
  const grid = useRef<HTMLDivElement>(null);
  // The focus goes with the choice where the grid has it.
  const [held, setHeld] = useState(false);
  const { row, column } = place;
  const fit = Math.max(3, Math.floor((props.width - 34) / CELL));
  const mostColumns = Math.min(fit, sheet.rows === 1 ? MOST_LONG : MOST_COLUMNS);
  const left = pageStart(column, sheet.columns, mostColumns);
  const top = pageStart(row, sheet.rows, MOST_ROWS);
  const columns = range(left, Math.min(sheet.columns, left + mostColumns));
  const rows = range(top, Math.min(sheet.rows, top + MOST_ROWS));
  const table = colorTable(views.state.colormap.value, views.theme.value);
  const decimals = most < 1 ? 3 : most < 10 ? 2 : most < 100 ? 1 : 0;

  // biome-ignore lint/correctness/useExhaustiveDependencies: the chosen cell is another element then
  useLayoutEffect(() => {
    if (held && !typing) focusChosen(grid.current);
  }, [held, sheet, row, column, typing]);

  const set = (number: number): void => {
    hand.change([sheet.at(row, column)], [number], { step: newStep() });
  };

  /** Several key presses in a row are one step. */
  const stepping = useRef({ stepper: createStepper(), at: -1 });
  const nudge = (by: number): void => {
    const at = sheet.at(row, column);
    if (stepping.current.at !== at) stepping.current = { stepper: createStepper(), at };
    hand.change([at], [hand.number(at) + (by * hand.range) / 100], {
      step: stepping.current.stepper.name(),
    });
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (typing || event.ctrlKey || event.metaKey) return;
    const { key } = event;
    const up = key === "ArrowUp" ? 1 : key === "ArrowDown" ? -1 : 0;
    if (event.altKey) {
      if (up === 0) return;
      if (hand.able) nudge(up * (event.shiftKey ? 0.1 : 1));
    } else if (/^[-0-9]$/.test(key)) {
      // It is the first of the number that is typed: the field has the focus before the letter comes.
      if (hand.able) type(true);
      event.stopPropagation();
      return;
    } else if (key === "Enter" || key === "F2") {
      if (hand.able) type(true);
    } else if (turn !== undefined && (key === "PageUp" || key === "PageDown")) {
      turn(key === "PageUp" ? -1 : 1);
    } else {
      const to: Record<string, readonly [number, number]> = {
        ArrowUp: [row - 1, column],
        ArrowDown: [row + 1, column],
        ArrowLeft: [row, column - 1],
        ArrowRight: [row, column + 1],
        Home: [row, 0],
        End: [row, sheet.columns - 1],
      };
      const next = to[key];
      if (next === undefined) return;
      const [y, x] = next;
      if (y >= 0 && y < sheet.rows && x >= 0 && x < sheet.columns) go({ row: y, column: x });
    }
    // Elsewhere these keys go to other layers and channels.
    event.preventDefault();
    event.stopPropagation();
  };

  /** Takes pasted numbers, or says why it does not. */
  const paste = (text: string): string => {
    const found = pasted(text);
    if (typeof found === "string") return found;
    const [down, across] = [found.length, found[0]?.length ?? 0];
    if (row + down > sheet.rows || column + across > sheet.columns) {
      const place = `row ${row}, column ${column}`;
      return `${down}×${across} numbers don’t fit from ${place} of ${sheet.rows}×${sheet.columns}`;
    }
    const places = found.flatMap((line, y) => line.map((_, x) => sheet.at(row + y, column + x)));
    hand.change(places, found.flat(), { step: newStep() });
    return "";
  };
  const onPaste = (event: ClipboardEvent): void => {
    if (typing) return;
    event.preventDefault();
    if (hand.able) say(paste(event.clipboardData?.getData("text/plain") ?? ""));
  };

  /** A whole kernel, or a row of what is larger. */
  const onCopy = (event: ClipboardEvent): void => {
    if (typing) return;
    event.preventDefault();
    const lines = sheet.rows > MOST_ROWS ? [row] : range(0, sheet.rows);
    const numbers = (y: number): (number | undefined)[] =>
      range(0, sheet.columns).map((x) => hand.values[sheet.at(y, x)]);
    const text = lines.map((y) => numbers(y).join("\t")).join("\n");
    event.clipboardData?.setData("text/plain", text);
  };

  return (
    <div
      ref={grid}
      class="nbg-hand-grid"
      role="grid"
      aria-label={sheet.title}
      aria-rowcount={sheet.rows}
      aria-colcount={sheet.columns}
      aria-readonly={!hand.able}
      data-lm-suppress-shortcuts="true"
      style={{ gridTemplateColumns: `auto repeat(${columns.length}, ${px(CELL)})` }}
      onKeyDown={onKeyDown}
      onPaste={onPaste}
      onCopy={onCopy}
      onFocusIn={() => setHeld(true)}
      onFocusOut={(event) => {
        const to = event.relatedTarget;
        if (to !== null && !grid.current?.contains(to as Node)) setHeld(false);
      }}
    >
      {/* Each weight says itself where it is. */}
      <div class="nbg-hand-row" aria-hidden="true">
        <span>{sheet.rows > 1 ? "" : sheet.across}</span>
        {columns.map((x) => (
          <span key={x}>{x}</span>
        ))}
      </div>
      {rows.map((y) => (
        <div key={y} role="row" tabIndex={-1} class="nbg-hand-row" aria-rowindex={y + 1}>
          <span aria-hidden="true">{sheet.rows > 1 && y}</span>
          {columns.map((x) => {
            const at = sheet.at(y, x);
            const chosen = y === row && x === column;
            return (
              <Weight
                key={x}
                {...{ hand, at, chosen, most, decimals, table, say }}
                words={sheet.words(y, x)}
                column={x}
                choose={() => go({ row: y, column: x })}
                typing={chosen && typing}
                type={type}
                set={set}
              />
            );
          })}
        </div>
      ))}
    </div>
  );
}

/** Gives the focus to the chosen weight of a grid. */
export function focusChosen(within: Element | null): void {
  within
    ?.querySelector<HTMLElement>('[role="gridcell"][tabindex="0"]')
    ?.focus({ preventScroll: true });
}

function Weight(props: {
  hand: Hand;
  at: number;
  words: string;
  column: number;
  chosen: boolean;
  most: number;
  decimals: number;
  table: ReturnType<typeof colorTable>;
  choose: () => void;
  typing: boolean;
  type: (typing: boolean) => void;
  set: (number: number) => void;
  say: (why: string) => void;
}) {
  const { hand, at, words, column, chosen, most, decimals, table, choose, typing, type } = props;
  const views = useViews();
  const number = hand.values[at] ?? 0;
  const mine = differs(number, hand.original[at]);
  const finite = Number.isFinite(number);
  const color = table(most > 0 ? 0.5 + (0.5 * number) / most : 0.5);
  const painted = { background: `rgb(${color.join(" ")})`, color: inkOn(color) };
  return (
    <div
      role="gridcell"
      class={finite ? "nbg-weight" : `nbg-weight ${Number.isNaN(number) ? "nbg-nan" : "nbg-inf"}`}
      style={finite ? painted : {}}
      tabIndex={chosen ? 0 : -1}
      aria-colindex={column + 1}
      aria-label={`weight ${exact(number)} of ${words}${mine ? ", edited" : ""}`}
      title={`${exact(number)}${mine ? `, was ${exact(hand.original[at] ?? 0)}` : ""}`}
      data-mine={mine}
      data-able={hand.able}
      onPointerDown={(event) => {
        if (event.button !== 0 || typing) return;
        choose();
        drag(event, views, hand, at, words, () => {
          views.note.value = null;
        });
      }}
      onDblClick={() => {
        if (hand.able) type(true);
      }}
    >
      {typing ? <Typed {...props} number={number} /> : plain(number, decimals)}
    </div>
  );
}

/** The number as text, until Enter takes it or Esc leaves it. */
function Typed(props: {
  number: number;
  words: string;
  type: (typing: boolean) => void;
  set: (number: number) => void;
  say: (why: string) => void;
}) {
  const { number, words, type, set, say } = props;
  const field = useRef<HTMLInputElement>(null);
  const [bad, setBad] = useState(false);
  const done = useRef(false);
  // Before the next key comes.
  useLayoutEffect(() => {
    field.current?.focus({ preventScroll: true });
    field.current?.select();
  }, []);
  const leave = (): void => {
    done.current = true;
    say("");
    type(false);
  };
  /** Whether it could be taken. */
  const take = (): boolean => {
    const text = field.current?.value ?? "";
    const found = parsed(text);
    setBad(typeof found === "string");
    if (typeof found === "string") {
      say(found);
      return false;
    }
    if (text !== field.current?.defaultValue) set(found);
    leave();
    return true;
  };
  return (
    <input
      ref={field}
      class="nbg-typed"
      aria-label={`weight of ${words}`}
      aria-invalid={bad}
      defaultValue={String(Number(number.toPrecision(7)))}
      inputMode="text"
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Enter") take();
        else if (event.key === "Escape") leave();
        else return;
        event.preventDefault();
      }}
      onBlur={() => {
        // To type elsewhere what cannot be taken here is to give it up.
        if (!done.current && !take()) leave();
      }}
    />
  );
}
