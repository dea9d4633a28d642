// One of a few things, chosen by buttons or from a list.

interface Choosing<T extends string> {
  label: string;
  /** What can be chosen, with the words for it. */
  items: readonly (readonly [T, string])[];
  selected: T;
  choose: (item: T) => void;
  /** What can't be chosen here, and stays in its place. */
  disabledItem?: T | false;
}

/** One of a few, side by side. */
export function Choice<T extends string>(props: Choosing<T>) {
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

/** One of several, in the browser's own list. */
export function Select<T extends string>(props: Choosing<T>) {
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
