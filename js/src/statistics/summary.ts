// Computes statistics from the device's reductions; float64, no GL.

import type { Summary } from "../plan/runtime.ts";

/** The device's reduction of one channel; sums are divided by the number of pixels. */
export interface ChannelReduction {
  readonly pixels: number;
  readonly low: number;
  readonly high: number;
  readonly sum: number;
  readonly count: number;
  /** Sum of squared deviations from the mean, in units of the largest magnitude. */
  readonly squares: number;
  readonly zeros: number;
  readonly nan: number;
  readonly inf: number;
}

/** Moments of finite values, combined by Chan, Golub and LeVeque's method, which avoids cancellation. */
interface Moments {
  readonly count: number;
  readonly mean: number;
  readonly squares: number;
}

export function summarizeChannel(channel: ChannelReduction): Summary {
  return summarizeChannels([channel]);
}

/** The reductions that a device computes, for each channel of one image; `data` has all elements in row-major order. */
export function reduceOnCpu(
  data: Float32Array,
  [, c, h, w]: readonly [number, number, number, number],
  image: number,
): ChannelReduction[] {
  const pixels = h * w;
  return Array.from({ length: c }, (_, k) => {
    const from = (image * c + k) * pixels;
    return reduceChannel(data.subarray(from, from + pixels));
  });
}

function reduceChannel(map: Float32Array): ChannelReduction {
  const pixels = map.length;
  let [low, high, sum, count, zeros, nan] = [Infinity, -Infinity, 0, 0, 0, 0];
  for (const v of map) {
    if (Number.isNaN(v)) nan += 1;
    if (!Number.isFinite(v)) continue;
    low = Math.min(low, v);
    high = Math.max(high, v);
    sum += v / pixels;
    count += 1;
    if (v === 0) zeros += 1;
  }
  const mean = (sum * pixels) / count;
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  let squares = 0;
  for (const v of map) if (Number.isFinite(v)) squares += ((v - mean) / most) ** 2 / pixels;
  return { pixels, low, high, sum, count, squares, zeros, nan, inf: pixels - count - nan };
}

/** The summary of all channels together. */
export function summarizeChannels(channels: readonly ChannelReduction[]): Summary {
  const { count, mean, squares } = channels
    .map(momentsOf)
    .reduce(combineMoments, { count: 0, mean: 0, squares: 0 });
  const total = (pick: (channel: ChannelReduction) => number) =>
    channels.reduce((sum, channel) => sum + pick(channel), 0);
  const filled = channels.filter((channel) => channel.count > 0);
  const among = (pick: (...values: number[]) => number, values: number[]) =>
    values.length > 0 ? values.reduce((a, b) => pick(a, b)) : Number.NaN;
  return {
    min: among(
      Math.min,
      filled.map((channel) => channel.low),
    ),
    max: among(
      Math.max,
      filled.map((channel) => channel.high),
    ),
    mean: count > 0 ? mean : Number.NaN,
    std: count > 0 ? Math.sqrt(squares / count) : Number.NaN,
    zeros: total((channel) => channel.zeros) / total((channel) => channel.pixels),
    nan: total((channel) => channel.nan),
    inf: total((channel) => channel.inf),
  };
}

function momentsOf({ pixels, low, high, sum, count, squares }: ChannelReduction): Moments {
  if (count === 0) return { count: 0, mean: 0, squares: 0 };
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return { count, mean: (sum * pixels) / count, squares: squares * pixels * most * most };
}

function combineMoments(a: Moments, b: Moments): Moments {
  const count = a.count + b.count;
  if (count === 0) return a;
  const apart = b.mean - a.mean;
  return {
    count,
    mean: a.mean + (apart * b.count) / count,
    squares: a.squares + b.squares + (apart * apart * a.count * b.count) / count,
  };
}
