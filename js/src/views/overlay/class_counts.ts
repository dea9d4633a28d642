// Counts the pixels of each class.

export interface ClassCount {
  readonly classIndex: number;
  readonly count: number;
}

/**
 * Count classes, most frequent first. The class of a pixel is the channel with its largest score, the first of equal
 * ones; with one channel, the values are the classes. A pixel with a NaN has no class.
 */
export function countClasses(values: Float32Array, channels: number): ClassCount[] {
  const places = values.length / channels;
  const counts = new Map<number, number>();
  for (let at = 0; at < places; at++) {
    let which = channels > 1 ? 0 : (values[at] ?? Number.NaN);
    let best = values[at] ?? Number.NaN;
    for (let k = 1; k < channels && !Number.isNaN(best); k++) {
      const value = values[k * places + at] ?? Number.NaN;
      if (value > best) which = k;
      if (value > best || Number.isNaN(value)) best = value;
    }
    if (!Number.isNaN(best)) counts.set(which, (counts.get(which) ?? 0) + 1);
  }
  return [...counts]
    .map(([classIndex, count]) => ({ classIndex, count }))
    .sort((a, b) => b.count - a.count || a.classIndex - b.classIndex);
}
