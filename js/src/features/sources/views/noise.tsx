// Noise: its seed, where it lies, how far it goes.

import { useViews } from "../../../views/context.ts";
import { NumberField } from "./field.tsx";
import type { PartProps } from "./part.ts";

/** The largest seed that Python takes. */
const MOST_SEED = 2 ** 31;

export function NoisePart({ source }: PartProps) {
  const { state } = useViews();
  if (source === null) return null;
  const set = (part: Partial<typeof source>): void => {
    state.source.value = { ...source, ...part };
  };
  return (
    <div class="nbg-noise">
      <p class="nbg-second">Nearly normal numbers, the same in Python for the same seed.</p>
      <span class="nbg-source-tools">
        <NumberField
          label="Seed"
          value={source.seed}
          low={0}
          high={MOST_SEED}
          step={1}
          set={(seed) => set({ seed })}
        />
        <NumberField label="Mean" value={source.mean} step={0.05} set={(mean) => set({ mean })} />
        <NumberField
          label="Standard deviation"
          value={source.std}
          low={0}
          step={0.05}
          set={(std) => set({ std })}
        />
        <button type="button" class="nbg-button" onClick={() => state.controls.peek()?.step(1)}>
          Another seed
        </button>
      </span>
    </div>
  );
}
