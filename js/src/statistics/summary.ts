// Computes statistics from the device's reductions; float64, no GL.

import type { Summary } from "../plan/runtime.ts";

/** The device's reduction of one channel; sums are divided by the number of pixels. */
export interface ChannelReduction {
  readonly pixelCount: number;
  readonly low: number;
  readonly high: number;
  readonly scaledSum: number;
  readonly finiteCount: number;
  /** Sum of squared deviations from the mean, in units of the largest magnitude. */
  readonly scaledSquaredDeviations: number;
  readonly zeros: number;
  readonly nan: number;
  readonly inf: number;
}

/** Moments of finite values, combined by Chan, Golub and LeVeque's method, which avoids cancellation. */
interface Moments {
  readonly finiteCount: number;
  readonly mean: number;
  readonly squaredDeviations: number;
}

export function summarizeChannel(channel: ChannelReduction): Summary {
  return summarizeChannels([channel]);
}

/** The reductions that a device computes, for each channel of one image; `data` has all elements in row-major order. */
export function reduceChannelsOnCpu(
  data: Float32Array,
  [, c, h, w]: readonly [number, number, number, number],
  exampleIndex: number,
): ChannelReduction[] {
  const pixels = h * w;
  return Array.from({ length: c }, (_, k) => {
    const from = (exampleIndex * c + k) * pixels;
    return reduceChannel(data.subarray(from, from + pixels));
  });
}

function reduceChannel(map: Float32Array): ChannelReduction {
  const pixelCount = map.length;
  let [low, high, scaledSum, finiteCount, zeros, nan] = [Infinity, -Infinity, 0, 0, 0, 0];
  for (const v of map) {
    if (Number.isNaN(v)) nan += 1;
    if (!Number.isFinite(v)) continue;
    low = Math.min(low, v);
    high = Math.max(high, v);
    scaledSum += v / pixelCount;
    finiteCount += 1;
    if (v === 0) zeros += 1;
  }
  const mean = (scaledSum * pixelCount) / finiteCount;
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  let scaledSquaredDeviations = 0;
  for (const v of map)
    if (Number.isFinite(v)) scaledSquaredDeviations += ((v - mean) / most) ** 2 / pixelCount;
  return {
    pixelCount,
    low,
    high,
    scaledSum,
    finiteCount,
    scaledSquaredDeviations,
    zeros,
    nan,
    inf: pixelCount - finiteCount - nan,
  };
}

/** The summary of all channels together. */
export function summarizeChannels(channels: readonly ChannelReduction[]): Summary {
  const { finiteCount, mean, squaredDeviations } = channels
    .map(momentsOf)
    .reduce(combineMoments, { finiteCount: 0, mean: 0, squaredDeviations: 0 });
  const total = (pick: (channel: ChannelReduction) => number) =>
    channels.reduce((sum, channel) => sum + pick(channel), 0);
  const filled = channels.filter((channel) => channel.finiteCount > 0);
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
    mean: finiteCount > 0 ? mean : Number.NaN,
    std: finiteCount > 0 ? Math.sqrt(squaredDeviations / finiteCount) : Number.NaN,
    zeroFraction: total((channel) => channel.zeros) / total((channel) => channel.pixelCount),
    nan: total((channel) => channel.nan),
    inf: total((channel) => channel.inf),
  };
}

function momentsOf({
  pixelCount,
  low,
  high,
  scaledSum,
  finiteCount,
  scaledSquaredDeviations,
}: ChannelReduction): Moments {
  if (finiteCount === 0) return { finiteCount: 0, mean: 0, squaredDeviations: 0 };
  const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
  return {
    finiteCount,
    mean: (scaledSum * pixelCount) / finiteCount,
    squaredDeviations: scaledSquaredDeviations * pixelCount * most * most,
  };
}

function combineMoments(a: Moments, b: Moments): Moments {
  const finiteCount = a.finiteCount + b.finiteCount;
  if (finiteCount === 0) return a;
  const apart = b.mean - a.mean;
  return {
    finiteCount,
    mean: a.mean + (apart * b.finiteCount) / finiteCount,
    squaredDeviations:
      a.squaredDeviations +
      b.squaredDeviations +
      (apart * apart * a.finiteCount * b.finiteCount) / finiteCount,
  };
}
