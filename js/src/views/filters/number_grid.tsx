// A grid of weights that can be dragged, stepped and typed; the grid is a single tab stop.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatExact, formatPadded } from "../../number_format.ts";
import { createUndoStepper, newUndoStepName } from "../../state/undo_steps.ts";
import { colorTable, textColorOn } from "../colors.ts";
import { useViews } from "../context.ts";
import { px } from "../layout.ts";
import { differs } from "./original_weights.ts";
import { startWeightDrag, type WeightEditor } from "./weight_editor.ts";
import { parseNumber, parsePastedNumbers, type WeightSheet } from "./weight_sheet.ts";

/** CSS pixels of a number's cell. */
export const CELL_WIDTH = 52;
/** The most rows shown at once: a 3×3×3 kernel has nine. */
const MAX_ROWS = 9;
const MAX_COLUMNS = 12;
const MAX_VECTOR_COLUMNS = 16;

export interface GridPosition {
  readonly row: number;
  readonly column: number;
}

interface NumberGridProps {
  editor: WeightEditor;
  sheet: WeightSheet;
  position: GridPosition;
  moveTo: (place: GridPosition) => void;
  /** Select the previous or next kernel. */
  stepKernel?: ((by: number) => void) | undefined;
  /** The absolute value that has the colour map's full colour. */
  maxAbs: number;
  width: number;
  /** The selected number is being typed. */
  isTyping: boolean;
  setTyping: (typing: boolean) => void;
  /** Shows the reason for a rejected input. */
  showError: (why: string) => void;
}

/**
 * The first item of the group that contains item `index`, if `count` items are shown in groups of `pageSize`. The last
 * group is moved back so that it is full.
 */
function pageStart(index: number, count: number, pageSize: number): number {
  return Math.max(0, Math.min(Math.floor(index / pageSize) * pageSize, count - pageSize));
}

const range = (start: number, end: number): number[] =>
  Array.from({ length: Math.max(0, end - start) }, (_, k) => start + k);

export function NumberGrid(props: NumberGridProps) {
  const { editor, sheet, position, moveTo, stepKernel, maxAbs, isTyping, setTyping, showError } =
    props;
  const views = useViews();
  const grid = useRef<HTMLDivElement>(null);
  // Whether the grid has the focus; the focus then follows the selection.
  const [hasFocus, setHeld] = useState(false);
  const { row, column } = position;
  const fit = Math.max(3, Math.floor((props.width - 34) / CELL_WIDTH));
  const mostColumns = Math.min(fit, sheet.rows === 1 ? MAX_VECTOR_COLUMNS : MAX_COLUMNS);
  const left = pageStart(column, sheet.columns, mostColumns);
  const top = pageStart(row, sheet.rows, MAX_ROWS);
  const columns = range(left, Math.min(sheet.columns, left + mostColumns));
  const rows = range(top, Math.min(sheet.rows, top + MAX_ROWS));
  const colorAt = colorTable(views.state.colormap.value, views.theme.value);
  const decimals = maxAbs < 1 ? 3 : maxAbs < 10 ? 2 : maxAbs < 100 ? 1 : 0;

  // biome-ignore lint/correctness/useExhaustiveDependencies: the chosen cell is another element then
  useLayoutEffect(() => {
    if (hasFocus && !isTyping) focusSelectedCell(grid.current);
  }, [hasFocus, sheet, row, column, isTyping]);

  const set = (number: number): void => {
    editor.setElements([sheet.index(row, column)], [number], { undoStep: newUndoStepName() });
  };

  /** Consecutive key presses form one undo step. */
  const stepping = useRef({ stepper: createUndoStepper(), at: -1 });
  const stepValue = (by: number): void => {
    const at = sheet.index(row, column);
    if (stepping.current.at !== at) stepping.current = { stepper: createUndoStepper(), at };
    editor.setElements([at], [editor.latestValue(at) + (by * editor.rangeWidth) / 100], {
      undoStep: stepping.current.stepper.currentStep(),
    });
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (isTyping || event.ctrlKey || event.metaKey) return;
    const { key } = event;
    const up = key === "ArrowUp" ? 1 : key === "ArrowDown" ? -1 : 0;
    if (event.altKey) {
      if (up === 0) return;
      if (editor.canEdit) stepValue(up * (event.shiftKey ? 0.1 : 1));
    } else if (/^[-0-9]$/.test(key)) {
      // The key is the first character of the number: the field gets the focus before the character arrives.
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
    // Otherwise these keys would change the layer or channel.
    event.preventDefault();
    event.stopPropagation();
  };

  /** Apply pasted numbers, or return the reason that they are rejected. */
  const paste = (text: string): string => {
    const found = parsePastedNumbers(text);
    if (typeof found === "string") return found;
    const [down, across] = [found.length, found[0]?.length ?? 0];
    if (row + down > sheet.rows || column + across > sheet.columns) {
      const place = `row ${row}, column ${column}`;
      return `${down}×${across} values don’t fit from ${place} of ${sheet.rows}×${sheet.columns}`;
    }
    const places = found.flatMap((line, y) => line.map((_, x) => sheet.index(row + y, column + x)));
    editor.setElements(places, found.flat(), { undoStep: newUndoStepName() });
    return "";
  };
  const onPaste = (event: ClipboardEvent): void => {
    if (isTyping) return;
    event.preventDefault();
    if (editor.canEdit) showError(paste(event.clipboardData?.getData("text/plain") ?? ""));
  };

  /** Copy a whole kernel, or one row of a larger parameter. */
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
      {/* Each weight has its position in its own label. */}
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
            const elementIndex = sheet.index(y, x);
            const isSelected = y === row && x === column;
            return (
              <WeightCell
                key={x}
                {...{ editor, elementIndex, isSelected, maxAbs, decimals, colorAt, showError }}
                elementText={sheet.elementText(y, x)}
                column={x}
                choose={() => moveTo({ row: y, column: x })}
                isTyping={isSelected && isTyping}
                setTyping={setTyping}
                setNumber={set}
              />
            );
          })}
        </div>
      ))}
    </div>
  );
}

/** Move the focus to the selected weight of a grid. */
export function focusSelectedCell(grid: Element | null): void {
  grid
    ?.querySelector<HTMLElement>('[role="gridcell"][tabindex="0"]')
    ?.focus({ preventScroll: true });
}

function WeightCell(props: {
  editor: WeightEditor;
  elementIndex: number;
  elementText: string;
  column: number;
  isSelected: boolean;
  maxAbs: number;
  decimals: number;
  colorAt: ReturnType<typeof colorTable>;
  choose: () => void;
  isTyping: boolean;
  setTyping: (typing: boolean) => void;
  setNumber: (number: number) => void;
  showError: (why: string) => void;
}) {
  const {
    editor,
    elementIndex,
    elementText,
    column,
    isSelected,
    maxAbs,
    decimals,
    colorAt,
    choose,
    isTyping,
    setTyping,
  } = props;
  const views = useViews();
  const number = editor.values[elementIndex] ?? 0;
  const mine = differs(number, editor.originalValues[elementIndex]);
  const finite = Number.isFinite(number);
  const color = colorAt(maxAbs > 0 ? 0.5 + (0.5 * number) / maxAbs : 0.5);
  const painted = { background: `rgb(${color.join(" ")})`, color: textColorOn(color) };
  return (
    <div
      role="gridcell"
      class={finite ? "nbg-weight" : `nbg-weight ${Number.isNaN(number) ? "nbg-nan" : "nbg-inf"}`}
      style={finite ? painted : {}}
      tabIndex={isSelected ? 0 : -1}
      aria-colindex={column + 1}
      aria-label={`weight ${formatExact(number)} of ${elementText}${mine ? ", edited" : ""}`}
      title={`${formatExact(number)}${mine ? `, was ${formatExact(editor.originalValues[elementIndex] ?? 0)}` : ""}`}
      data-mine={mine}
      data-able={editor.canEdit}
      onPointerDown={(event) => {
        if (event.button !== 0 || isTyping) return;
        choose();
        startWeightDrag(event, views, editor, elementIndex, elementText, () => {
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

/** The number as a text field: Enter commits, Esc cancels. */
function NumberInput(props: {
  number: number;
  elementText: string;
  setTyping: (typing: boolean) => void;
  setNumber: (number: number) => void;
  showError: (why: string) => void;
}) {
  const { number, elementText, setTyping, setNumber, showError } = props;
  const field = useRef<HTMLInputElement>(null);
  const [bad, setBad] = useState(false);
  const done = useRef(false);
  // Before the next key event.
  useLayoutEffect(() => {
    field.current?.focus({ preventScroll: true });
    field.current?.select();
  }, []);
  const leave = (): void => {
    done.current = true;
    showError("");
    setTyping(false);
  };
  /** Try to commit the text; return whether it was valid. */
  const take = (): boolean => {
    const text = field.current?.value ?? "";
    const found = parseNumber(text);
    setBad(typeof found === "string");
    if (typeof found === "string") {
      showError(found);
      return false;
    }
    if (text !== field.current?.defaultValue) setNumber(found);
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
        // Leaving the field with invalid text discards the text.
        if (!done.current && !take()) leave();
      }}
    />
  );
}
