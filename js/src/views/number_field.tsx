// A number that is typed or stepped: what is typed stays, however often the view is drawn again meanwhile, until the
// field is left; what is no number within its ends is marked and not taken.
import { useState } from "preact/hooks";

export function NumberField(props: {
  label: string;
  value: number;
  /** From `low` to `high`, both included. */
  low?: number;
  high?: number;
  step?: number;
  /** What is wrong stays when the field is left; else the value stands there again. */
  keepsInvalid?: true;
  /** Classes of the label and of the field. */
  class?: string;
  field?: string;
  set: (value: number) => void;
}) {
  const { label, value, low = -Infinity, high = Infinity, step = 1, set } = props;
  /** What is typed, and the value that it leaves as it is; undefined where it is taken. */
  const [typed, setDraft] = useState<{ readonly text: string; readonly keeps?: number } | null>(
    null,
  );
  // What is wrong goes where the value is changed elsewhere.
  const draft = typed?.keeps === undefined || typed.keeps === value ? typed : null;
  const isGood = ({ value, validity, valueAsNumber }: HTMLInputElement): boolean =>
    value !== "" && validity.valid && Number.isFinite(valueAsNumber);
  const leave = (event: Event): void => {
    if (!props.keepsInvalid || isGood(event.currentTarget as HTMLInputElement)) setDraft(null);
  };
  return (
    <label class={props.class ?? "nbg-labelled"}>
      <span class="nbg-second">{label}</span>
      <input
        type="number"
        class={props.field ?? "nbg-select nbg-index"}
        min={props.low}
        max={props.high}
        step={Number.isInteger(step) ? step : "any"}
        value={draft?.text ?? value}
        aria-invalid={draft?.keeps !== undefined}
        onKeyDown={(event) => {
          const by = { ArrowUp: step, ArrowDown: -step }[event.key];
          if (by === undefined || Number.isInteger(step)) return;
          event.preventDefault();
          setDraft(null);
          set(Math.min(high, Math.max(low, Number((value + by).toFixed(6)))));
        }}
        onInput={(event) => {
          const { value: text, valueAsNumber } = event.currentTarget;
          const good = isGood(event.currentTarget);
          setDraft(good ? { text } : { text, keeps: value });
          if (good) set(valueAsNumber);
        }}
        onChange={leave}
        onBlur={leave}
      />
    </label>
  );
}
