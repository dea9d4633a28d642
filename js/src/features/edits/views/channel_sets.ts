// Sets of channels: random, by a statistic, and by similarity of maps. Deterministic for a seed.
import type { Statistics, Summary } from "../../../plan/runtime.ts";
import { argsortDescending } from "../../../views/layout.ts";

export const allChannels = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

export const invertChannels = (selected: ReadonlySet<number>, count: number): number[] =>
  allChannels(count).filter((one) => !selected.has(one));

export const everyNthChannel = (step: number, count: number): number[] =>
  allChannels(count).filter((one) => one % step === 0);

/** mulberry32: a seeded generator of numbers from 0 to 1. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A random half of the channels, at least one. */
export function randomHalf(count: number, seed: number): number[] {
  const next = seededRandom(seed);
  const drawn = allChannels(count).map(next);
  return argsortDescending(drawn)
    .slice(0, Math.max(1, Math.round(count / 2)))
    .sort((a, b) => a - b);
}

/** Number of channels that "By mean" selects. */
export const TOP_CHANNEL_COUNT = 8;
export type ChannelStatistic = "mean" | "max" | "std";

/** The channels with the largest statistic. */
export function topChannels(statistics: Statistics, statistic: ChannelStatistic): number[] {
  const keys = statistics.channels.map((one: Summary) => one[statistic]);
  return argsortDescending(keys)
    .slice(0, TOP_CHANNEL_COUNT)
    .sort((a, b) => a - b);
}

const MAX_ITERATIONS = 20;

/**
 * Cluster channels whose maps have similar directions, largest cluster first: k-means on maps normalised to length 1,
 * with k-means++ initialisation. Maps of zeros are far from all others and form a cluster.
 */
export function clusterChannels(values: Float32Array, channels: number, seed = 0): number[][] {
  const size = values.length / channels;
  const k = Math.min(channels, Math.max(2, Math.round(Math.sqrt(channels / 2))));
  const maps = allChannels(channels).map((c) =>
    normalizeMap(values.subarray(c * size, (c + 1) * size)),
  );
  const next = seededRandom(seed);
  const middles = initialCenters(maps, k, next);
  let of = maps.map(() => -1);
  for (let round = 0; round < MAX_ITERATIONS; round++) {
    const now = maps.map((map) => nearestCenter(map, middles));
    if (now.every((one, i) => one === of[i])) break;
    of = now;
    for (let j = 0; j < k; j++) {
      const own = maps.filter((_, i) => of[i] === j);
      if (own.length > 0) middles[j] = meanMap(own, size);
    }
  }
  return allChannels(k)
    .map((j) => allChannels(channels).filter((i) => of[i] === j))
    .filter((group) => group.length > 0)
    .sort((a, b) => b.length - a.length || (a[0] ?? 0) - (b[0] ?? 0));
}

function normalizeMap(map: Float32Array): Float32Array {
  const finite = map.map((one) => (Number.isFinite(one) ? one : 0));
  const length = Math.hypot(...blockNorms(finite)) || 1;
  return finite.map((one) => one / length);
}

/** Norms of parts of a map: a function takes a limited number of arguments. */
function blockNorms(map: Float32Array): number[] {
  const found = [];
  for (let i = 0; i < map.length; i += 4096) {
    let sum = 0;
    for (const one of map.subarray(i, i + 4096)) sum += one * one;
    found.push(Math.sqrt(sum));
  }
  return found;
}

function squaredDistance(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += ((a[i] ?? 0) - (b[i] ?? 0)) ** 2;
  return sum;
}

function nearestCenter(map: Float32Array, centers: readonly Float32Array[]): number {
  const far = centers.map((one) => squaredDistance(map, one));
  return far.indexOf(Math.min(...far));
}

/**
 * Initial cluster centres by k-means++: maps, chosen with a probability that grows with the distance to earlier
 * centres.
 */
function initialCenters(
  maps: readonly Float32Array[],
  clusterCount: number,
  nextRandom: () => number,
): Float32Array[] {
  const found = [maps[Math.floor(nextRandom() * maps.length)] ?? new Float32Array()];
  while (found.length < clusterCount) {
    const far = maps.map((map) => Math.min(...found.map((one) => squaredDistance(map, one))));
    let rest = nextRandom() * far.reduce((sum, one) => sum + one, 0);
    const at = far.findIndex((one) => {
      rest -= one;
      return rest < 0;
    });
    found.push(maps[at < 0 ? found.length % maps.length : at] ?? new Float32Array());
  }
  return found;
}

function meanMap(maps: readonly Float32Array[], size: number): Float32Array {
  const sum = new Float32Array(size);
  for (const map of maps) for (let i = 0; i < size; i++) sum[i] = (sum[i] ?? 0) + (map[i] ?? 0);
  return sum.map((one) => one / maps.length);
}
