// A field for an index: what is typed stays until it is left, however often the view is drawn again meanwhile.
import { useState } from "preact/hooks";

export function IndexField(props: {
  label: string;
  /** From `low` to `high`, both included. */
  low: number;
  high: number;
  index: number;
  class?: string;
  choose: (index: number) => void;
}) {
  const { label, low, high, index, class: name = "nbg-index", choose } = props;
  const [draft, setDraft] = useState<string | null>(null);
  const leave = (): void => setDraft(null);
  return (
    <label class="nbg-labelled">
      <span class="nbg-second">{label}</span>
      <input
        type="number"
        class={`nbg-select ${name}`}
        min={low}
        max={high}
        value={draft ?? index}
        onInput={(event) => {
          const { value, valueAsNumber: to } = event.currentTarget;
          setDraft(value);
          if (Number.isInteger(to) && to >= low && to <= high) choose(to);
        }}
        onChange={leave}
        onBlur={leave}
      />
    </label>
  );
}
