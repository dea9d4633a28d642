// The panel of a source that is defined by numbers: a sentence, a field for each number, and a step button.
import { useViews } from "../../../views/context.ts";
import { NumberField } from "../../../views/number_field.tsx";
import type { Source, SourceKindName } from "../records.ts";
import { getSourceKind } from "../source_kinds.ts";

export function NumericPanel({ kind, source }: { kind: SourceKindName; source: Source | null }) {
  const { state } = useViews();
  if (source === null) return null;
  const { description, numericFields = [], stepLabel } = getSourceKind({ kind });
  return (
    <div class="nbg-source-numbers">
      {description !== undefined && <p class="nbg-second">{description}</p>}
      <span class="nbg-source-tools">
        {numericFields.map(({ name, ...field }) => (
          <NumberField
            keepsInvalid
            class="nbg-source-number"
            fieldClass=""
            key={name}
            {...field}
            value={Number(source[name])}
            setValue={(value) => {
              state.source.value = { ...source, [name]: value };
            }}
          />
        ))}
        {stepLabel !== undefined && (
          <button
            type="button"
            class="nbg-button"
            onClick={() => state.sourceControls.peek()?.step(1)}
          >
            {stepLabel}
          </button>
        )}
      </span>
    </div>
  );
}
