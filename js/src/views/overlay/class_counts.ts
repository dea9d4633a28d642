// How many places of a picture are of each class.

export interface ClassCount {
  readonly classIndex: number;
  readonly count: number;
}

/**
 * The classes of an image's scores, channel after channel, by the largest one of each place, the first of equals; of
 * one channel its values are the classes. The most frequent first. A place with a NaN has none.
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
