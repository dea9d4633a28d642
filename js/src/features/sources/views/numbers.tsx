// A source that its record's numbers say all of: a sentence, a field a number, and the button of its next step.
import { useViews } from "../../../views/context.ts";
import { NumberField } from "../../../views/number_field.tsx";
import { kindOf } from "../kinds.ts";
import type { Source, SourceKindName } from "../records.ts";

export function NumbersPart({ kind, source }: { kind: SourceKindName; source: Source | null }) {
  const { state } = useViews();
  if (source === null) return null;
  const { about, numbers = [], stepWord } = kindOf({ kind });
  return (
    <div class="nbg-source-numbers">
      {about !== undefined && <p class="nbg-second">{about}</p>}
      <span class="nbg-source-tools">
        {numbers.map(({ name, ...field }) => (
          <NumberField
            keepsWrong
            class="nbg-source-number"
            field=""
            key={name}
            {...field}
            value={Number(source[name])}
            set={(value) => {
              state.source.value = { ...source, [name]: value };
            }}
          />
        ))}
        {stepWord !== undefined && (
          <button type="button" class="nbg-button" onClick={() => state.controls.peek()?.step(1)}>
            {stepWord}
          </button>
        )}
      </span>
    </div>
  );
}
