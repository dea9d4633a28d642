// A number that is typed or stepped; what is no number within its ends is not taken, and said.
import { useState } from "preact/hooks";

export function NumberField(props: {
  label: string;
  value: number;
  low?: number;
  high?: number;
  step: number;
  set: (value: number) => void;
}) {
  const { label, value, low, high, step, set } = props;
  const [wrong, setWrong] = useState(false);
  // While a source plays the drawer is drawn again and again: what is typed stays.
  const [draft, setDraft] = useState<string | null>(null);
  const leave = (event: Event): void => {
    if (isGood(event.currentTarget as HTMLInputElement)) setDraft(null);
  };
  return (
    <label class="nbg-source-number">
      <span class="nbg-second">{label}</span>
      <input
        type="number"
        min={low}
        max={high}
        step={Number.isInteger(step) ? step : "any"}
        value={draft ?? value}
        aria-invalid={wrong}
        onKeyDown={(event) => {
          const by = { ArrowUp: step, ArrowDown: -step }[event.key];
          if (by === undefined || Number.isInteger(step)) return;
          event.preventDefault();
          setDraft(null);
          setWrong(false);
          set(
            Math.min(high ?? Infinity, Math.max(low ?? -Infinity, Number((value + by).toFixed(6)))),
          );
        }}
        onInput={(event) => {
          const good = isGood(event.currentTarget);
          setDraft(event.currentTarget.value);
          setWrong(!good);
          if (good) set(event.currentTarget.valueAsNumber);
        }}
        onChange={leave}
        onBlur={leave}
      />
    </label>
  );
}

const isGood = ({ value, validity, valueAsNumber }: HTMLInputElement): boolean =>
  value !== "" && validity.valid && Number.isFinite(valueAsNumber);
