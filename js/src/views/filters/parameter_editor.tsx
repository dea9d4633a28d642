// The weight editor below a parameter's picture: the selected kernel's numbers, operations on a whole filter, and the
// count of edited weights.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatExact, formatInteger } from "../../number_format.ts";
import { redoEdits, undoEdits } from "../../state/edits.ts";
import { createUndoStepper, dragHandlers, newUndoStepName } from "../../state/undo_steps.ts";
import { useViews } from "../context.ts";
import { type GridPosition, NumberGrid } from "./number_grid.tsx";
import { differs } from "./original_weights.ts";
import type { WeightEditor } from "./weight_editor.ts";
import { type Filter, parseNumber, setWeightStatement, type WeightSheet } from "./weight_sheet.ts";

const NO_PYTHON_TEXT = "Editing weights requires Python";

export function ParameterEditor(props: {
  editor: WeightEditor;
  sheet: WeightSheet;
  position: GridPosition;
  moveTo: (place: GridPosition) => void;
  stepKernel?: (by: number) => void;
  maxAbs: number;
  width: number;
  isTyping: boolean;
  setTyping: (typing: boolean) => void;
}) {
  const { editor, sheet, position } = props;
  const { state } = useViews();
  const [why, say] = useState("");
  const filter = useMemo(() => sheet.filter(position.row), [sheet, position.row]);
  const at = sheet.index(position.row, position.column);
  const trouble = why || state.editError.value;
  return (
    <div class="nbg-weight-editor">
      <div class="nbg-weight-editor-part">
        <h4>
          {sheet.title} <span class="nbg-second">{sheet.shapeText}</span>
        </h4>
        <NumberGrid {...props} showError={say} />
      </div>
      <div class="nbg-weight-editor-part nbg-weight-editor-tools">
        <p class="nbg-weight-selected">
          <strong>{formatExact(editor.values[at] ?? 0)}</strong>{" "}
          <span class="nbg-second">{sheet.elementText(position.row, position.column)}</span>
          {differs(editor.values[at], editor.originalValues[at]) && (
            <span class="nbg-weight-edited">
              {" "}
              was {formatExact(editor.originalValues[at] ?? 0)}
            </span>
          )}
        </p>
        {editor.canEdit ? (
          <>
            <FilterTools
              key={`${filter.title} ${editor.value.key}`}
              editor={editor}
              filter={filter}
              showError={say}
            />
            <UndoButtons />
            <code class="nbg-line-of-python">
              {setWeightStatement(editor.value, at, editor.values[at] ?? 0)}
            </code>
            {trouble !== "" && (
              <p class="nbg-bad" role="alert">
                {trouble}.
              </p>
            )}
            <p class="nbg-second nbg-hint">
              Drag a value up or down, with Shift in fine steps. Double-click or press Enter to
              type; paste sets several; Alt and ↑&nbsp;↓ step
              {props.stepKernel && ", Page ↑\u00a0↓ for other kernels"}.
            </p>
          </>
        ) : (
          <p class="nbg-note">{NO_PYTHON_TEXT}.</p>
        )}
      </div>
    </div>
  );
}

/** Opens the number grid; its label is "1 of 800 weights changed". */
export function EditButton(props: {
  editor: WeightEditor;
  open: boolean;
  setOpen: (open: boolean) => void;
}) {
  const { editor, open, setOpen } = props;
  const { changedCount, values, value } = editor;
  return (
    <>
      {changedCount > 0 && (
        <span class="nbg-weight-edited">
          {formatInteger(changedCount)} of {formatInteger(values.length)}{" "}
          {values.length === 1 ? "weight" : "weights"} changed
        </span>
      )}
      <button
        type="button"
        class="nbg-button"
        aria-expanded={open}
        aria-label={`Edit ${value.key}`}
        onClick={() => setOpen(!open)}
      >
        Edit
      </button>
    </>
  );
}

/** Operations on all weights of a filter: scale by a factor, set to zero, and reset. */
function FilterTools(props: {
  editor: WeightEditor;
  filter: Filter;
  showError: (why: string) => void;
}) {
  const { editor, filter, showError } = props;
  const { state } = useViews();
  // The filter's weights when the factor was 1, which the factor scales.
  const [base, setBase] = useState<readonly number[] | null>(null);
  const [factor, setFactor] = useState(1);
  // The view renders again with each run; typed text must survive that.
  const [draft, setDraft] = useState<string | null>(null);
  const text = String(Number(factor.toFixed(4)));
  const stepper = useRef(createUndoStepper()).current;
  const { indices, title } = filter;
  const forget = useCallback((): void => {
    setBase(null);
    setFactor(1);
  }, []);
  const undone = state.redoStack.value.length > 0;
  useEffect(() => {
    if (undone) forget(); // the base no longer matches the current weights
  }, [undone, forget]);
  const scale = (by: number, isThrottled: boolean): void => {
    const now = base ?? indices.map((at) => editor.values[at] ?? 0);
    setBase(now);
    setFactor(by);
    editor.setElements(
      indices,
      now.map((weight) => weight * by),
      { undoStep: stepper.currentStep(), isThrottled },
    );
  };
  const make = (numbers: readonly number[]): void => {
    forget();
    editor.setElements(indices, numbers, { undoStep: newUndoStepName() });
  };
  const isChanged = indices.some((at) => differs(editor.values[at], editor.originalValues[at]));
  const words = factor.toFixed(2).replace("-", "−");
  return (
    <div class="nbg-filter-tools" role="group" aria-label={title}>
      <strong>{title}</strong>
      <label class="nbg-labelled">
        <span class="nbg-second">×</span>
        <input
          type="range"
          min={0}
          max={2}
          step={0.01}
          value={factor}
          aria-label={`Scale ${title}`}
          aria-valuetext={`times ${words}`}
          onInput={(event) => scale(Number(event.currentTarget.value), true)}
          {...dragHandlers(stepper)}
          onChange={() => {
            stepper.endDrag();
            editor.flush();
          }}
        />
      </label>
      <input
        class="nbg-factor"
        aria-label={`Factor of ${title}`}
        value={draft ?? text}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          event.stopPropagation(); // the field has its own undo
          if (event.key === "Escape") event.currentTarget.value = text;
          if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
        }}
        onBlur={(event) => {
          const found = parseNumber(event.currentTarget.value);
          setDraft(null);
          showError(typeof found === "string" ? found : "");
          if (typeof found !== "string" && String(found) !== text) scale(found, false);
        }}
      />
      <button type="button" class="nbg-button" onClick={() => make(indices.map(() => 0))}>
        Zero
      </button>
      <button
        type="button"
        class="nbg-button"
        disabled={!isChanged}
        title="Restore the original weights"
        onClick={() => make(indices.map((at) => editor.originalValues[at] ?? 0))}
      >
        Reset
      </button>
    </div>
  );
}

function UndoButtons() {
  const { state } = useViews();
  const STEPS = [
    ["Undo", undoEdits, state.undoStack.value.length, "M4.5 6.5h6a3 3 0 0 1 0 6H7M7 3.5l-3 3 3 3"],
    ["Redo", redoEdits, state.redoStack.value.length, "M11.5 6.5h-6a3 3 0 0 0 0 6H9M9 3.5l3 3-3 3"],
  ] as const;
  return (
    <div class="nbg-undo-buttons">
      {STEPS.map(([word, go, count, path]) => (
        <button
          key={word}
          type="button"
          class="nbg-button"
          disabled={count === 0}
          onClick={() => go(state)}
        >
          <svg
            viewBox="0 0 16 16"
            width="16"
            height="16"
            fill="none"
            stroke="currentColor"
            stroke-width="1.4"
            stroke-linecap="round"
            stroke-linejoin="round"
            aria-hidden="true"
          >
            <path d={path} />
          </svg>
          {word}
        </button>
      ))}
    </div>
  );
}

/** Undo and redo by Ctrl/⌘+Z, Ctrl/⌘+Shift+Z and Ctrl/⌘+Y, except while text is typed. */
export function useUndoKeys(): (event: KeyboardEvent) => void {
  const { state } = useViews();
  return (event) => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || (key !== "z" && key !== "y")) return;
    if (event.target instanceof HTMLInputElement && event.target.type !== "range") return;
    event.preventDefault();
    event.stopPropagation();
    if (key === "y" || event.shiftKey) redoEdits(state);
    else undoEdits(state);
  };
}
