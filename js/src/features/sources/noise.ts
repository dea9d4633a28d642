// Noise: the same numbers as Python's, of a seed.
import { countOf, type Open } from "./input_slot.ts";
import type { NoiseRecord } from "./records.ts";
import type { SourceKind } from "./source_kind.ts";

/** PCG's output function, as features/edits/transforms.py has it. */
export function scrambled(number: number): number {
  const state = (Math.imul(number, 747796405) + 2891336453) >>> 0;
  const word = Math.imul((state >>> ((state >>> 28) + 4)) ^ state, 277803737) >>> 0;
  return ((word >>> 22) ^ word) >>> 0;
}

/** Nearly normal numbers: twelve uniform ones added. The sum is exact in doubles, and rounded once, as in Python. */
export function noiseOf(count: number, seed: number, mean: number, std: number): Float32Array {
  const found = new Float32Array(count);
  const first = scrambled(seed);
  for (let at = 0; at < count; at++) {
    let state = scrambled((at ^ first) >>> 0);
    let sum = 0;
    for (let k = 0; k < 12; k++) {
      sum += ((state >>> 9) + 0.5) / 8388608;
      state = scrambled(state);
    }
    found[at] = mean + std * (sum - 6);
  }
  return found;
}

/** Seeds begin again behind the last that Python takes. */
const SEEDS = 2 ** 31;

const open: Open<NoiseRecord> = (place) => {
  const count = countOf(place.input);
  const feed = (): void => {
    const { source } = place;
    const data = noiseOf(count, source.seed, source.mean, source.std);
    void place.feed({ data }, source, () => false);
  };
  const step = (by: number): void => {
    place.change({ seed: (place.source.seed + by + SEEDS) % SEEDS });
  };
  place.offer({ step });
  feed();
  return { follow: feed, start: () => undefined, stop: () => undefined, dispose: () => undefined };
};

export const noise = {
  word: "Noise",
  icon: "M1.5 8h2l1.5-4.5L7.5 13l2-8.5L11.2 8h3.3",
  title: ({ seed }) => `Noise ${seed}`,
  python: ({ seed, mean, std }, call) => call("Noise", `${seed}`, `mean=${mean}`, `std=${std}`),
  fits: ({ dtype }) => dtype === "float32",
  beginsByName: true,
  about: "Nearly normal numbers, the same in Python for the same seed.",
  numbers: [
    { name: "seed", label: "Seed", low: 0, high: SEEDS, step: 1 },
    { name: "mean", label: "Mean", step: 0.05 },
    { name: "std", label: "Standard deviation", low: 0, step: 0.05 },
  ],
  stepWord: "Another seed",
  open,
} satisfies SourceKind<NoiseRecord>;
