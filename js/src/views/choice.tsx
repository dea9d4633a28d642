// Controls for choosing one of a few items: buttons or a select element.

interface ChoiceProps<T extends string> {
  label: string;
  /** The items, each with its label. */
  items: readonly (readonly [T, string])[];
  selected: T;
  choose: (item: T) => void;
  /** An item that can't be chosen here but stays visible. */
  disabledItem?: T | false;
}

/** A row of buttons. */
export function Choice<T extends string>(props: ChoiceProps<T>) {
  const { label, items, selected, choose, disabledItem } = props;
  return (
    <div class="nbg-choice" role="group" aria-label={label}>
      {items.map(([item, word]) => (
        <button
          type="button"
          key={item}
          aria-pressed={item === selected}
          disabled={item === disabledItem}
          onClick={() => choose(item)}
        >
          {word}
        </button>
      ))}
    </div>
  );
}

/** A native select element. */
export function Select<T extends string>(props: ChoiceProps<T>) {
  const { label, items, selected, choose } = props;
  return (
    <label class="nbg-labelled">
      <span class="nbg-second">{label}</span>
      <select
        class="nbg-select"
        value={selected}
        onChange={(event) => {
          const chosen = items.find(([item]) => item === event.currentTarget.value);
          if (chosen !== undefined) choose(chosen[0]);
        }}
      >
        {items.map(([item, word]) => (
          <option key={item} value={item}>
            {word}
          </option>
        ))}
      </select>
    </label>
  );
}
