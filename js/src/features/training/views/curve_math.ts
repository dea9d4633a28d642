// Computations for loss charts: running mean, decimation, axis scales and ticks.

/** A curve for a chart: increasing x values, and a y value for each. */
export interface CurvePoints {
  readonly x: readonly number[];
  readonly y: readonly number[];
}

/** The number of steps that the mean covers: 1 % of all steps. */
export const smoothingWindow = (steps: number): number => Math.max(1, Math.round(steps / 100));

/**
 * The mean of the last `window` values at each index, ignoring non-finite ones. Sums are computed by addition only, in
 * blocks: subtracting a value such as 1e30 would lose the digits of all small ones.
 */
export function runningMean(values: readonly number[], window: number): Float64Array {
  const { length } = values;
  const [sums, counts] = [new Float64Array(length), new Float64Array(length)];
  const add = (k: number, from: number): void => {
    const value = values[k] ?? Number.NaN;
    const counted = Number.isFinite(value);
    sums[k] = (sums[from] ?? 0) + (counted ? value : 0);
    counts[k] = (counts[from] ?? 0) + (counted ? 1 : 0);
  };
  // The sum from each index to the end of its block …
  for (let k = length - 1; k >= 0; k--) add(k, (k + 1) % window === 0 ? -1 : k + 1);
  const means = new Float64Array(length);
  let [sum, count] = [0, 0];
  for (let k = 0; k < length; k++) {
    // … plus the sum from the start of the next block.
    if (k % window === 0) [sum, count] = [0, 0];
    const value = values[k] ?? Number.NaN;
    if (Number.isFinite(value)) {
      sum += value;
      count++;
    }
    const first = k - window + 1;
    const rest = first > 0 && first % window !== 0 ? first : -1;
    const all = count + (counts[rest] ?? 0);
    means[k] = all === 0 ? Number.NaN : (sum + (sums[rest] ?? 0)) / all;
  }
  return means;
}

/** Curves with more points are decimated. */
const MAX_CURVE_POINTS = 2000;

/**
 * Points of a series with one value per step, from step 1 on. Long series are reduced to the minimum and maximum of
 * each of `binCount` bins.
 */
export function decimate(values: ArrayLike<number>, binCount: number): CurvePoints {
  const { length } = values;
  const [x, y]: [number[], number[]] = [[], []];
  const take = (k: number): void => {
    x.push(k + 1);
    y.push(values[k] ?? Number.NaN);
  };
  if (length <= MAX_CURVE_POINTS) {
    for (let k = 0; k < length; k++) if (Number.isFinite(values[k])) take(k);
    return { x, y };
  }
  const each = length / Math.max(1, binCount);
  for (let bin = 0; bin < binCount; bin++) {
    const [from, to] = [Math.floor(bin * each), Math.floor((bin + 1) * each)];
    let [least, most] = [-1, -1];
    for (let k = from; k < to; k++) {
      const value = values[k] ?? Number.NaN;
      if (!Number.isFinite(value)) continue;
      if (least < 0 || value < (values[least] ?? 0)) least = k;
      if (most < 0 || value > (values[most] ?? 0)) most = k;
    }
    if (least < 0) continue;
    take(Math.min(least, most));
    if (least !== most) take(Math.max(least, most));
  }
  return { x, y };
}

export interface AxisRange {
  readonly low: number;
  readonly high: number;
}

/** The minimum and maximum of all curves; null if there are no points. */
export function curveRange(curves: readonly CurvePoints[]): AxisRange | null {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { y } of curves) {
    for (const value of y) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? { low, high } : null;
}

/** An axis: its range, and whether it is logarithmic or linear. */
export interface AxisScale extends AxisRange {
  readonly isLog: boolean;
}

/** A range slightly larger than the data's; logarithmic if all values are positive. */
export function axisScale(range: AxisRange | null): AxisScale {
  const { low, high } = range ?? { low: 0.1, high: 1 };
  if (low > 0) {
    const [more, least] = [(high / low) ** 0.06, 1.12];
    const by = Math.max(more, least);
    return { isLog: true, low: low / by, high: high * by };
  }
  const by = 0.06 * (high - low) || 1;
  return { isLog: false, low: low - by, high: high + by };
}

/** The position of a value on an axis, as a fraction of its length. */
export const axisPosition = ({ isLog, low, high }: AxisScale, value: number): number =>
  isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);

/** Round numbers within an axis. On a logarithmic axis 1, 2 and 5 of each decade, or fewer if there are too many. */
export function axisTicks({ isLog, low, high }: AxisScale, maxTickCount: number): number[] {
  if (isLog) {
    for (const digits of [[1, 2, 5], [1, 3], [1]]) {
      const found: number[] = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
        for (const digit of digits) {
          const value = Number(`${digit}e${power}`);
          if (value >= low && value <= high) found.push(value);
        }
      }
      if (found.length < 2) break;
      if (found.length <= maxTickCount) return found;
      if (digits.length === 1)
        return found.filter((_, k) => k % Math.ceil(found.length / maxTickCount) === 0);
    }
  }
  const rough = (high - low) / Math.max(1, maxTickCount);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((digit) => digit * power >= rough) ?? 10);
  const found: number[] = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) {
    found.push(Number((k * step).toPrecision(12)));
  }
  return found;
}

/** The index of the nearest of some increasing positions; -1 if there are none. */
export function nearestIndex(positions: readonly number[], target: number): number {
  let found = -1;
  for (const [k, place] of positions.entries()) {
    if (found < 0 || Math.abs(place - target) < Math.abs((positions[found] ?? 0) - target))
      found = k;
  }
  return found;
}
