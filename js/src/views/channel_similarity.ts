// Similarity of maps, and a value's rank within its map.

/** Cosine similarity between one channel's map and each map; NaN if a map is zero everywhere. */
export function cosineSimilarities(
  values: Float32Array,
  channels: number,
  channel: number,
): number[] {
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
export function valueRank(
  values: Float32Array,
  start: number,
  size: number,
  index: number,
): number {
  const value = values[index] ?? Number.NaN;
  let rank = 1;
  for (let i = start; i < start + size; i++) if ((values[i] ?? 0) > value) rank++;
  return rank;
}
