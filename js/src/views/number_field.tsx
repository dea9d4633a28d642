// A number field that is typed or stepped. Typed text survives re-renders until the field loses the focus; text that is
// no number in the range is marked and not applied.
import { useState } from "preact/hooks";

export function NumberField(props: {
  label: string;
  value: number;
  /** The inclusive range. */
  low?: number;
  high?: number;
  step?: number;
  /** Keep invalid text when the field loses the focus; by default the value is shown again. */
  keepsInvalid?: true;
  /** CSS classes of the label and of the field. */
  class?: string;
  fieldClass?: string;
  setValue: (value: number) => void;
}) {
  const { label, value, low = -Infinity, high = Infinity, step = 1, setValue } = props;
  /** The typed text; for invalid text also the value at that time (`unchangedValue`). */
  const [typed, setDraft] = useState<{
    readonly text: string;
    readonly unchangedValue?: number;
  } | null>(null);
  // Discard invalid text if the value changes elsewhere.
  const draft =
    typed?.unchangedValue === undefined || typed.unchangedValue === value ? typed : null;
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
        class={props.fieldClass ?? "nbg-select nbg-index"}
        min={props.low}
        max={props.high}
        step={Number.isInteger(step) ? step : "any"}
        value={draft?.text ?? value}
        aria-invalid={draft?.unchangedValue !== undefined}
        onKeyDown={(event) => {
          const by = { ArrowUp: step, ArrowDown: -step }[event.key];
          if (by === undefined || Number.isInteger(step)) return;
          event.preventDefault();
          setDraft(null);
          setValue(Math.min(high, Math.max(low, Number((value + by).toFixed(6)))));
        }}
        onInput={(event) => {
          const { value: text, valueAsNumber } = event.currentTarget;
          const good = isGood(event.currentTarget);
          setDraft(good ? { text } : { text, unchangedValue: value });
          if (good) setValue(valueAsNumber);
        }}
        onChange={leave}
        onBlur={leave}
      />
    </label>
  );
}
