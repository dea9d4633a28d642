// Noise source: for a seed, the same numbers as in Python.
import { elementCount, type OpenSource } from "./input_slot.ts";
import type { NoiseRecord } from "./records.ts";
import type { SourceKind } from "./source_kind.ts";

/** PCG's output function, as in features/edits/transforms.py. */
export function pcgHash(number: number): number {
  const state = (Math.imul(number, 747796405) + 2891336453) >>> 0;
  const word = Math.imul((state >>> ((state >>> 28) + 4)) ^ state, 277803737) >>> 0;
  return ((word >>> 22) ^ word) >>> 0;
}

/**
 * Approximately normal numbers: the sum of twelve uniform ones. The sum is exact in float64 and rounded once, as in
 * Python.
 */
export function noiseArray(count: number, seed: number, mean: number, std: number): Float32Array {
  const found = new Float32Array(count);
  const first = pcgHash(seed);
  for (let at = 0; at < count; at++) {
    let state = pcgHash((at ^ first) >>> 0);
    let sum = 0;
    for (let k = 0; k < 12; k++) {
      sum += ((state >>> 9) + 0.5) / 8388608;
      state = pcgHash(state);
    }
    found[at] = mean + std * (sum - 6);
  }
  return found;
}

/** Seeds wrap around at the number of seeds that Python accepts. */
const SEED_COUNT = 2 ** 31;

const openNoise: OpenSource<NoiseRecord> = (slot) => {
  const count = elementCount(slot.input);
  const feed = (): void => {
    const { source } = slot;
    const data = noiseArray(count, source.seed, source.mean, source.std);
    void slot.feed({ data }, source, () => false);
  };
  const step = (by: number): void => {
    slot.change({ seed: (slot.source.seed + by + SEED_COUNT) % SEED_COUNT });
  };
  slot.updateControls({ step });
  feed();
  return { update: feed, start: () => undefined, stop: () => undefined, dispose: () => undefined };
};

export const noise = {
  label: "Noise",
  icon: "M1.5 8h2l1.5-4.5L7.5 13l2-8.5L11.2 8h3.3",
  title: ({ seed }) => `Noise ${seed}`,
  pythonLine: ({ seed, mean, std }, call) => call("Noise", `${seed}`, `mean=${mean}`, `std=${std}`),
  accepts: ({ dtype }) => dtype === "float32",
  startsOnSelect: true,
  description: "Approximately normal values. The same seed gives the same values in Python.",
  numericFields: [
    { name: "seed", label: "Seed", min: 0, max: SEED_COUNT, step: 1 },
    { name: "mean", label: "Mean", step: 0.05 },
    { name: "std", label: "Standard deviation", min: 0, step: 0.05 },
  ],
  stepLabel: "Another seed",
  open: openNoise,
} satisfies SourceKind<NoiseRecord>;
