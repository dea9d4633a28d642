// Vector arithmetic for codes.

/** Count equal items; most frequent first, ties in order of first occurrence. */
export function countByFrequency<T>(items: readonly T[]): [T, number][] {
  const counts = new Map<T, number>();
  for (const one of items) counts.set(one, (counts.get(one) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let k = 0; k < a.length; k++) sum += (a[k] ?? 0) * (b[k] ?? 0);
  return sum;
}

export const norm = (a: ArrayLike<number>): number => Math.sqrt(dot(a, a));

/** a + times · b. */
export function addScaled(a: ArrayLike<number>, b: ArrayLike<number>, factor = 1): Float64Array {
  return Float64Array.from({ length: a.length }, (_, k) => (a[k] ?? 0) + factor * (b[k] ?? 0));
}

export const unitVector = (length: number, index: number): Float64Array => {
  const found = new Float64Array(length);
  found[index] = 1;
  return found;
};

export const clamp = (value: number, low: number, high: number): number =>
  Math.min(high, Math.max(low, value));
