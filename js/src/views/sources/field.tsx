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
  return (
    <label class="nbg-source-number">
      <span class="nbg-second">{label}</span>
      <input
        type="number"
        min={low}
        max={high}
        step={Number.isInteger(step) ? step : "any"}
        value={value}
        aria-invalid={wrong}
        onKeyDown={(event) => {
          const by = { ArrowUp: step, ArrowDown: -step }[event.key];
          if (by === undefined || Number.isInteger(step)) return;
          event.preventDefault();
          set(
            Math.min(high ?? Infinity, Math.max(low ?? -Infinity, Number((value + by).toFixed(6)))),
          );
        }}
        onInput={(event) => {
          const { value: text, validity, valueAsNumber } = event.currentTarget;
          const good = text !== "" && validity.valid && Number.isFinite(valueAsNumber);
          setWrong(!good);
          if (good) set(valueAsNumber);
        }}
      />
    </label>
  );
}
