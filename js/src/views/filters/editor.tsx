// Below a parameter's picture: the chosen kernel's numbers, what is done to a whole filter, and what was changed.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { exact, full } from "../../format.ts";
import { redo, undo } from "../../state/edits.ts";
import { createStepper, dragOf, newStep } from "../../state/undo_steps.ts";
import { useViews } from "../context.ts";
import { Cells, type Place } from "./cells.tsx";
import type { Hand } from "./hand.ts";
import { differs } from "./originals.ts";
import { type Filter, lineOf, parsed, type Sheet } from "./sheet.ts";

const WITHOUT_PYTHON = "Changing weights needs Python";

export function Editor(props: {
  hand: Hand;
  sheet: Sheet;
  place: Place;
  go: (place: Place) => void;
  turn?: (by: number) => void;
  most: number;
  width: number;
  typing: boolean;
  type: (typing: boolean) => void;
}) {
  const { hand, sheet, place } = props;
  const { state } = useViews();
  const [why, say] = useState("");
  const filter = useMemo(() => sheet.filter(place.row), [sheet, place.row]);
  const at = sheet.at(place.row, place.column);
  const trouble = why || state.editTrouble.value;
  return (
    <div class="nbg-hand">
      <div class="nbg-hand-part">
        <h4>
          {sheet.title} <span class="nbg-second">{sheet.size}</span>
        </h4>
        <Cells {...props} say={say} />
      </div>
      <div class="nbg-hand-part nbg-hand-tools">
        <p class="nbg-hand-chosen">
          <strong>{exact(hand.values[at] ?? 0)}</strong>{" "}
          <span class="nbg-second">{sheet.words(place.row, place.column)}</span>
          {differs(hand.values[at], hand.original[at]) && (
            <span class="nbg-hand-mine"> was {exact(hand.original[at] ?? 0)}</span>
          )}
        </p>
        {hand.able ? (
          <>
            <Whole
              key={`${filter.title} ${hand.value.key}`}
              hand={hand}
              filter={filter}
              say={say}
            />
            <Steps />
            <code class="nbg-line-of-python">{lineOf(hand.value, at, hand.values[at] ?? 0)}</code>
            {trouble !== "" && (
              <p class="nbg-bad" role="alert">
                {trouble}.
              </p>
            )}
            <p class="nbg-second nbg-hint">
              Drag a number up or down, Shift for fine steps. Double click or Enter to type, paste
              for several; Alt and ↑&nbsp;↓ for steps
              {props.turn && ", Page ↑\u00a0↓ for other kernels"}.
            </p>
          </>
        ) : (
          <p class="nbg-note">{WITHOUT_PYTHON}.</p>
        )}
      </div>
    </div>
  );
}

/** Opens the numbers, and says "1 of 800 weights changed". */
export function EditButton(props: { hand: Hand; open: boolean; set: (open: boolean) => void }) {
  const { hand, open, set } = props;
  const { changed, values, value } = hand;
  return (
    <>
      {changed > 0 && (
        <span class="nbg-hand-mine">
          {full(changed)} of {full(values.length)} {values.length === 1 ? "weight" : "weights"}{" "}
          changed
        </span>
      )}
      <button
        type="button"
        class="nbg-button"
        aria-expanded={open}
        aria-label={`Edit ${value.key}`}
        onClick={() => set(!open)}
      >
        Edit
      </button>
    </>
  );
}

/** What is done to all weights of a filter: a factor, zero, and back to what they were. */
function Whole(props: { hand: Hand; filter: Filter; say: (why: string) => void }) {
  const { hand, filter, say } = props;
  const { state } = useViews();
  // The weights that the factor is of: those that the filter had when it was 1.
  const [base, setBase] = useState<readonly number[] | null>(null);
  const [factor, setFactor] = useState(1);
  // The view is drawn again with each run: what is typed stays.
  const [draft, setDraft] = useState<string | null>(null);
  const text = String(Number(factor.toFixed(4)));
  const stepper = useRef(createStepper()).current;
  const { places, title } = filter;
  const forget = useCallback((): void => {
    setBase(null);
    setFactor(1);
  }, []);
  const undone = state.future.value.length > 0;
  useEffect(() => {
    if (undone) forget(); // it is of none of the weights that are there now
  }, [undone, forget]);
  const scale = (by: number, live: boolean): void => {
    const now = base ?? places.map((at) => hand.values[at] ?? 0);
    setBase(now);
    setFactor(by);
    hand.change(
      places,
      now.map((weight) => weight * by),
      { step: stepper.name(), live },
    );
  };
  const make = (numbers: readonly number[]): void => {
    forget();
    hand.change(places, numbers, { step: newStep() });
  };
  const isChanged = places.some((at) => differs(hand.values[at], hand.original[at]));
  const words = factor.toFixed(2).replace("-", "−");
  return (
    <div class="nbg-hand-whole" role="group" aria-label={title}>
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
          {...dragOf(stepper)}
          onChange={() => {
            stepper.release();
            hand.settle();
          }}
        />
      </label>
      <input
        class="nbg-factor"
        aria-label={`Factor of ${title}`}
        value={draft ?? text}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          event.stopPropagation(); // the field has an undo of its own
          if (event.key === "Escape") event.currentTarget.value = text;
          if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
        }}
        onBlur={(event) => {
          const found = parsed(event.currentTarget.value);
          setDraft(null);
          say(typeof found === "string" ? found : "");
          if (typeof found !== "string" && String(found) !== text) scale(found, false);
        }}
      />
      <button type="button" class="nbg-button" onClick={() => make(places.map(() => 0))}>
        Zero
      </button>
      <button
        type="button"
        class="nbg-button"
        disabled={!isChanged}
        title="To the weights that it had before it was edited"
        onClick={() => make(places.map((at) => hand.original[at] ?? 0))}
      >
        Reset
      </button>
    </div>
  );
}

function Steps() {
  const { state } = useViews();
  const STEPS = [
    ["Undo", undo, state.past.value.length, "M4.5 6.5h6a3 3 0 0 1 0 6H7M7 3.5l-3 3 3 3"],
    ["Redo", redo, state.future.value.length, "M11.5 6.5h-6a3 3 0 0 0 0 6H9M9 3.5l3 3-3 3"],
  ] as const;
  return (
    <div class="nbg-hand-steps">
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

/** Ctrl or ⌘ and Z, with Shift or Y: undo and redo, where no text is typed. */
export function useSteps(): (event: KeyboardEvent) => void {
  const { state } = useViews();
  return (event) => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || (key !== "z" && key !== "y")) return;
    if (event.target instanceof HTMLInputElement && event.target.type !== "range") return;
    event.preventDefault();
    event.stopPropagation();
    if (key === "y" || event.shiftKey) redo(state);
    else undo(state);
  };
}
