// A select element for a layer, labelled only for screen readers.
export function LayerSelect(props: {
  label: string;
  items: readonly (readonly [string, string])[];
  selected: string;
  choose: (item: string) => void;
}) {
  const { label, items, selected, choose } = props;
  return (
    <select
      class="nbg-select nbg-layer-choice"
      aria-label={label}
      value={selected}
      onChange={(event) => choose(event.currentTarget.value)}
    >
      {items.map(([item, word]) => (
        <option key={item} value={item}>
          {word}
        </option>
      ))}
    </select>
  );
}
