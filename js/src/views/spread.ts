// How values are spread: counts for a histogram, and a value's rank within its map.

export interface Bins {
  readonly low: number;
  readonly high: number;
  /** Values that are exactly zero, and not in `counts`. */
  readonly zeros: number;
  readonly counts: readonly number[];
}

/** Counts finite values between the least and the greatest; zeros apart, a ReLU makes so many. */
export function binsOf(values: ArrayLike<number>, count: number): Bins | null {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? Number.NaN;
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  const counts = new Array<number>(count).fill(0);
  const width = high - low || 1;
  let zeros = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? Number.NaN;
    if (value === 0) zeros++;
    else if (Number.isFinite(value)) {
      const bin = Math.min(count - 1, Math.floor(((value - low) / width) * count));
      counts[bin] = (counts[bin] ?? 0) + 1;
    }
  }
  return { low, high, zeros, counts };
}

/** Cosine of the angle between one channel's map and each other's; NaN where a map is zero everywhere. */
export function similarity(values: Float32Array, channels: number, channel: number): number[] {
  const size = values.length / channels;
  const maps = Array.from({ length: channels }, (_, i) =>
    values.subarray(i * size, (i + 1) * size),
  );
  const one = maps[channel] ?? values.subarray(0, 0);
  const dot = (a: Float32Array, b: Float32Array): number => {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
    return sum;
  };
  const square = dot(one, one);
  return maps.map((map) => dot(map, one) / Math.sqrt(dot(map, map) * square));
}

/** 1 for the largest value of its map; equal values share the best rank. */
export function rankOf(values: Float32Array, start: number, size: number, index: number): number {
  const value = values[index] ?? Number.NaN;
  let rank = 1;
  for (let i = start; i < start + size; i++) if ((values[i] ?? 0) > value) rank++;
  return rank;
}
