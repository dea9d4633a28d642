// A numeric parameter of a bend: a slider, and a field for values beyond the slider's range.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Parameter } from "../../../plan/edits.ts";
import { createUndoStepper, dragHandlers } from "../../../state/undo_steps.ts";
import { formatNumber, parseNumber, stepNumber } from "./parameter_text.ts";

export function NumberControl(props: {
  parameter: Parameter;
  value: number;
  /** The owner's name, for screen readers. */
  ownerLabel: string;
  /** Set the value; calls with the same `step` are undone together. */
  setValue: (value: number, step: string) => void;
  /** Report an error in the typed text; "" clears it. */
  reportError: (trouble: string) => void;
}) {
  const { parameter, value, ownerLabel, setValue, reportError } = props;
  const { name, low, high, step, unit } = parameter;
  const [draft, setDraft] = useState<string | null>(null);
  const [wrong, setWrong] = useState(false);
  const place = useRef<HTMLSpanElement>(null);
  const stepper = useRef(createUndoStepper()).current;
  const id = useId();
  const take = (text: string): void => {
    const found = parseNumber(text, parameter);
    const bad = typeof found === "string";
    setWrong(bad);
    reportError(bad ? found : "");
    if (bad) return;
    setDraft(null);
    if (found !== value) setValue(found, stepper.currentStep());
  };
  const leave = (): void => {
    setDraft(null);
    setWrong(false);
    reportError("");
  };
  const move = (by: number): void => {
    leave();
    setValue(stepNumber(value, by, parameter), stepper.currentStep());
  };
  // The wheel changes the focused number and doesn't scroll the page.
  const turn = useRef(move);
  turn.current = move;
  useEffect(() => {
    const element = place.current;
    const wheel = (event: WheelEvent): void => {
      const root = element?.getRootNode() as Document | ShadowRoot;
      if (event.ctrlKey || !element?.contains(root.activeElement)) return;
      event.preventDefault();
      turn.current(event.deltaY < 0 ? 1 : -1);
    };
    element?.addEventListener("wheel", wheel, { passive: false });
    return () => element?.removeEventListener("wheel", wheel);
  }, []);
  const text = `${formatNumber(value)}${unit === "°" ? unit : unit && ` ${unit}`}`;
  return (
    <span class="nbg-number-control" ref={place}>
      <label class="nbg-second" for={id}>
        {name}
      </label>
      <input
        type="range"
        min={low}
        max={high}
        step={step}
        value={value}
        aria-label={`${ownerLabel}: ${name}`}
        aria-valuetext={text}
        onInput={(event) => {
          leave();
          setValue(Number(event.currentTarget.value), stepper.currentStep());
        }}
        {...dragHandlers(stepper)}
      />
      <span class={wrong ? "nbg-field nbg-wrong" : "nbg-field"}>
        <input
          type="text"
          inputMode="decimal"
          id={id}
          autocomplete="off"
          aria-label={`${ownerLabel}: ${name}${unit && `, ${unit}`}`}
          aria-invalid={wrong}
          // While the field has unsaved text, Ctrl+Z undoes in the text, not in the edits.
          data-draft={draft !== null || undefined}
          value={draft ?? formatNumber(value)}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onBlur={(event) => draft !== null && take(event.currentTarget.value)}
          onKeyDown={(event) => {
            const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
            if (by !== undefined) {
              move(event.shiftKey ? 10 * by : by);
              event.preventDefault();
            } else if (event.key === "Enter") take(event.currentTarget.value);
            else if (event.key === "Escape" && draft !== null) {
              leave();
              event.stopPropagation();
            }
          }}
        />
        {unit !== "" && <span aria-hidden="true">{unit}</span>}
      </span>
    </span>
  );
}
