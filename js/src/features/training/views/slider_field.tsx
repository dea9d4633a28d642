// A numeric setting that can change during training: a slider, and a field for values outside its range.
import { useId, useState } from "preact/hooks";

/** Conversion between values and slider positions. */
export interface SliderScale {
  readonly low: number;
  readonly high: number;
  readonly step: number;
  toPosition(value: number): number;
  toValue(position: number): number;
}

/** Twenty positions per decade. */
export const LOG_SLIDER: SliderScale = {
  low: -6,
  high: 0,
  step: 0.05,
  toPosition: (value) => Math.max(-6, Math.min(0, Math.log10(value))),
  toValue: (at) => Number((10 ** at).toPrecision(2)),
};
export const NOISE_SLIDER: SliderScale = {
  low: 0,
  high: 0.5,
  step: 0.01,
  toPosition: (value) => Math.min(0.5, value),
  toValue: (at) => at,
};

/** Parse a number, or return an error message; the same rules as in Python. */
function parseNumber(text: string): number | string {
  const bare = text.replaceAll("−", "-").replace(",", ".").trim();
  const value = bare === "" ? Number.NaN : Number(bare);
  if (!Number.isFinite(value)) return "Enter a number.";
  return value < 0 ? "Enter at least 0." : value;
}

export function SliderField(props: {
  label: string;
  value: number;
  scale: SliderScale;
  /** Why the value cannot be changed; "" if it can. */
  disabledReason: string;
  setValue: (value: number) => void;
}) {
  const { label, value, scale, disabledReason, setValue } = props;
  const [draft, setDraft] = useState<string | null>(null);
  const [trouble, setTrouble] = useState("");
  const id = useId();
  const text = String(Number(value.toPrecision(7)));
  const leave = (): void => {
    setDraft(null);
    setTrouble("");
  };
  const take = (typed: string): void => {
    const found = parseNumber(typed);
    if (typeof found === "string") {
      setTrouble(found);
      return;
    }
    leave();
    if (found !== value) setValue(found);
  };
  const off = disabledReason !== "";
  return (
    <span class="nbg-slider-field" title={disabledReason}>
      <label class="nbg-second" for={id}>
        {label}
      </label>
      <input
        type="range"
        min={scale.low}
        max={scale.high}
        step={scale.step}
        value={scale.toPosition(value)}
        disabled={off}
        aria-label={label}
        aria-valuetext={text}
        onInput={(event) => {
          leave();
          setValue(scale.toValue(Number(event.currentTarget.value)));
        }}
      />
      <input
        type="text"
        inputMode="decimal"
        id={id}
        class={trouble === "" ? "nbg-slider-number" : "nbg-slider-number nbg-wrong-number"}
        autocomplete="off"
        disabled={off}
        aria-invalid={trouble !== ""}
        value={draft ?? text}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onBlur={(event) => draft !== null && take(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") take(event.currentTarget.value);
          else if (event.key === "Escape" && draft !== null) {
            leave();
            event.stopPropagation();
          }
        }}
      />
      {trouble !== "" && (
        <span class="nbg-err-text" role="alert">
          {trouble}
        </span>
      )}
      {off && <span class="nbg-second">{disabledReason}</span>}
    </span>
  );
}
