// A few of a parameter's weights as numbers that are dragged, stepped and typed: one grid, with one stop of the Tab key.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatExact, formatPadded } from "../../number_format.ts";
import { createUndoStepper, newStepName } from "../../state/undo_steps.ts";
import { colorTable, textColorOn } from "../colors.ts";
import { useViews } from "../context.ts";
import { px } from "../layout.ts";
import { differs } from "./original_weights.ts";
import { startDrag, type WeightEditor } from "./weight_editor.ts";
import { parseNumber, parsePasted, type WeightSheet } from "./weight_sheet.ts";

/** CSS pixels of a number's cell. */
export const CELL_WIDTH = 52;
/** Rows at once: a kernel of 3×3×3 has nine. */
const MAX_ROWS = 9;
const MAX_COLUMNS = 12;
const MAX_VECTOR_COLUMNS = 16;

export interface GridPosition {
  readonly row: number;
  readonly column: number;
}

interface CellsProps {
  editor: WeightEditor;
  sheet: WeightSheet;
  position: GridPosition;
  moveTo: (place: GridPosition) => void;
  /** To the kernel before or after this one. */
  stepKernel?: ((by: number) => void) | undefined;
  /** The value with the map's full colour. */
  maxAbs: number;
  width: number;
  /** The chosen number is being typed. */
  isTyping: boolean;
  setTyping: (typing: boolean) => void;
  /** Says why something could not be. */
  showError: (why: string) => void;
}

/** Where the page of `most` begins that has the k-th of `count`. */
function pageStart(k: number, count: number, most: number): number {
  return Math.max(0, Math.min(Math.floor(k / most) * most, count - most));
}

const range = (start: number, end: number): number[] =>
  Array.from({ length: Math.max(0, end - start) }, (_, k) => start + k);

export function NumberGrid(props: CellsProps) {
  const { editor, sheet, position, moveTo, stepKernel, maxAbs, isTyping, setTyping, showError } =
    props;
  const views = useViews();
  const grid = useRef<HTMLDivElement>(null);
  // The focus goes with the choice where the grid has it.
  const [held, setHeld] = useState(false);
  const { row, column } = position;
  const fit = Math.max(3, Math.floor((props.width - 34) / CELL_WIDTH));
  const mostColumns = Math.min(fit, sheet.rows === 1 ? MAX_VECTOR_COLUMNS : MAX_COLUMNS);
  const left = pageStart(column, sheet.columns, mostColumns);
  const top = pageStart(row, sheet.rows, MAX_ROWS);
  const columns = range(left, Math.min(sheet.columns, left + mostColumns));
  const rows = range(top, Math.min(sheet.rows, top + MAX_ROWS));
  const table = colorTable(views.state.colormap.value, views.theme.value);
  const decimals = maxAbs < 1 ? 3 : maxAbs < 10 ? 2 : maxAbs < 100 ? 1 : 0;

  // biome-ignore lint/correctness/useExhaustiveDependencies: the chosen cell is another element then
  useLayoutEffect(() => {
    if (held && !isTyping) focusSelected(grid.current);
  }, [held, sheet, row, column, isTyping]);

  const set = (number: number): void => {
    editor.change([sheet.index(row, column)], [number], { step: newStepName() });
  };

  /** Several key presses in a row are one step. */
  const stepping = useRef({ stepper: createUndoStepper(), at: -1 });
  const nudge = (by: number): void => {
    const at = sheet.index(row, column);
    if (stepping.current.at !== at) stepping.current = { stepper: createUndoStepper(), at };
    editor.change([at], [editor.latestValue(at) + (by * editor.range) / 100], {
      step: stepping.current.stepper.currentStep(),
    });
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (isTyping || event.ctrlKey || event.metaKey) return;
    const { key } = event;
    const up = key === "ArrowUp" ? 1 : key === "ArrowDown" ? -1 : 0;
    if (event.altKey) {
      if (up === 0) return;
      if (editor.canEdit) nudge(up * (event.shiftKey ? 0.1 : 1));
    } else if (/^[-0-9]$/.test(key)) {
      // It is the first of the number that is typed: the field has the focus before the letter comes.
      if (editor.canEdit) setTyping(true);
      event.stopPropagation();
      return;
    } else if (key === "Enter" || key === "F2") {
      if (editor.canEdit) setTyping(true);
    } else if (stepKernel !== undefined && (key === "PageUp" || key === "PageDown")) {
      stepKernel(key === "PageUp" ? -1 : 1);
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
      if (y >= 0 && y < sheet.rows && x >= 0 && x < sheet.columns) moveTo({ row: y, column: x });
    }
    // Elsewhere these keys go to other layers and channels.
    event.preventDefault();
    event.stopPropagation();
  };

  /** Takes pasted numbers, or says why it does not. */
  const paste = (text: string): string => {
    const found = parsePasted(text);
    if (typeof found === "string") return found;
    const [down, across] = [found.length, found[0]?.length ?? 0];
    if (row + down > sheet.rows || column + across > sheet.columns) {
      const place = `row ${row}, column ${column}`;
      return `${down}×${across} values don’t fit from ${place} of ${sheet.rows}×${sheet.columns}`;
    }
    const places = found.flatMap((line, y) => line.map((_, x) => sheet.index(row + y, column + x)));
    editor.change(places, found.flat(), { step: newStepName() });
    return "";
  };
  const onPaste = (event: ClipboardEvent): void => {
    if (isTyping) return;
    event.preventDefault();
    if (editor.canEdit) showError(paste(event.clipboardData?.getData("text/plain") ?? ""));
  };

  /** A whole kernel, or a row of what is larger. */
  const onCopy = (event: ClipboardEvent): void => {
    if (isTyping) return;
    event.preventDefault();
    const lines = sheet.rows > MAX_ROWS ? [row] : range(0, sheet.rows);
    const numbers = (y: number): (number | undefined)[] =>
      range(0, sheet.columns).map((x) => editor.values[sheet.index(y, x)]);
    const text = lines.map((y) => numbers(y).join("\t")).join("\n");
    event.clipboardData?.setData("text/plain", text);
  };

  return (
    <div
      ref={grid}
      class="nbg-weight-grid"
      role="grid"
      aria-label={sheet.title}
      aria-rowcount={sheet.rows}
      aria-colcount={sheet.columns}
      aria-readonly={!editor.canEdit}
      data-lm-suppress-shortcuts="true"
      style={{ gridTemplateColumns: `auto repeat(${columns.length}, ${px(CELL_WIDTH)})` }}
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
      <div class="nbg-weight-row" aria-hidden="true">
        <span>{sheet.rows > 1 ? "" : sheet.columnLabel}</span>
        {columns.map((x) => (
          <span key={x}>{x}</span>
        ))}
      </div>
      {rows.map((y) => (
        <div key={y} role="row" tabIndex={-1} class="nbg-weight-row" aria-rowindex={y + 1}>
          <span aria-hidden="true">{sheet.rows > 1 && y}</span>
          {columns.map((x) => {
            const at = sheet.index(y, x);
            const chosen = y === row && x === column;
            return (
              <Weight
                key={x}
                {...{ editor, at, chosen, maxAbs, decimals, table, showError }}
                elementText={sheet.elementText(y, x)}
                column={x}
                choose={() => moveTo({ row: y, column: x })}
                isTyping={chosen && isTyping}
                setTyping={setTyping}
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
export function focusSelected(within: Element | null): void {
  within
    ?.querySelector<HTMLElement>('[role="gridcell"][tabindex="0"]')
    ?.focus({ preventScroll: true });
}

function Weight(props: {
  editor: WeightEditor;
  at: number;
  elementText: string;
  column: number;
  chosen: boolean;
  maxAbs: number;
  decimals: number;
  table: ReturnType<typeof colorTable>;
  choose: () => void;
  isTyping: boolean;
  setTyping: (typing: boolean) => void;
  set: (number: number) => void;
  showError: (why: string) => void;
}) {
  const {
    editor,
    at,
    elementText,
    column,
    chosen,
    maxAbs,
    decimals,
    table,
    choose,
    isTyping,
    setTyping,
  } = props;
  const views = useViews();
  const number = editor.values[at] ?? 0;
  const mine = differs(number, editor.original[at]);
  const finite = Number.isFinite(number);
  const color = table(maxAbs > 0 ? 0.5 + (0.5 * number) / maxAbs : 0.5);
  const painted = { background: `rgb(${color.join(" ")})`, color: textColorOn(color) };
  return (
    <div
      role="gridcell"
      class={finite ? "nbg-weight" : `nbg-weight ${Number.isNaN(number) ? "nbg-nan" : "nbg-inf"}`}
      style={finite ? painted : {}}
      tabIndex={chosen ? 0 : -1}
      aria-colindex={column + 1}
      aria-label={`weight ${formatExact(number)} of ${elementText}${mine ? ", edited" : ""}`}
      title={`${formatExact(number)}${mine ? `, was ${formatExact(editor.original[at] ?? 0)}` : ""}`}
      data-mine={mine}
      data-able={editor.canEdit}
      onPointerDown={(event) => {
        if (event.button !== 0 || isTyping) return;
        choose();
        startDrag(event, views, editor, at, elementText, () => {
          views.tooltip.value = null;
        });
      }}
      onDblClick={() => {
        if (editor.canEdit) setTyping(true);
      }}
    >
      {isTyping ? <NumberInput {...props} number={number} /> : formatPadded(number, decimals)}
    </div>
  );
}

/** The number as text, until Enter takes it or Esc leaves it. */
function NumberInput(props: {
  number: number;
  elementText: string;
  setTyping: (typing: boolean) => void;
  set: (number: number) => void;
  showError: (why: string) => void;
}) {
  const { number, elementText, setTyping, set, showError } = props;
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
    showError("");
    setTyping(false);
  };
  /** Whether it could be taken. */
  const take = (): boolean => {
    const text = field.current?.value ?? "";
    const found = parseNumber(text);
    setBad(typeof found === "string");
    if (typeof found === "string") {
      showError(found);
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
      aria-label={`weight of ${elementText}`}
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
