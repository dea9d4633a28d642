// The plane through the codes that the pad, its scatter plot and the grid share: two directions with their limits.
import { codeAt, type LatentCodes } from "./latent_codes.ts";
import { addScaled, clamp, dot, norm, unitVector } from "./vector_math.ts";

export type AxisKind = "pca" | "units" | "between";

/** The reader's choice: the kind of axes, and the units or pictures that define them. */
export interface AxisChoice {
  readonly axisKind: AxisKind;
  readonly units: readonly [number, number];
  /** Positions among the items with codes. */
  readonly pictures: readonly [number, number];
}

/** One direction: a unit along it changes the code by `vector`; it extends from `low` to `high`. */
export interface PlaneAxis {
  readonly name: string;
  readonly vector: Float64Array;
  readonly low: number;
  readonly high: number;
}

export interface LatentPlane {
  /** The code at 0, 0. */
  readonly origin: Float64Array;
  readonly xAxis: PlaneAxis;
  readonly yAxis: PlaneAxis;
  /** Planes with the same name are equal. */
  readonly name: string;
}

export type PlanePoint = readonly [across: number, up: number];

/** Least extent to each side, in standard deviations. */
const MIN_EXTENT_DEVIATIONS = 2.5;
const RANGE_MARGIN_FRACTION = 0.05;
/** Default extent to each side without data. */
const DEFAULT_EXTENT = 3;

/** The code at a point of the plane, as float32. */
export function codeAtPoint({ origin, xAxis, yAxis }: LatentPlane, [a, b]: PlanePoint): number[] {
  const found = addScaled(addScaled(origin, xAxis.vector, a), yAxis.vector, b);
  return Array.from(found, Math.fround);
}

/** The orthogonal projection of a code onto the plane: the directions are orthogonal. */
export function projectCode(
  { origin, xAxis, yAxis }: LatentPlane,
  code: ArrayLike<number>,
): PlanePoint {
  const from = addScaled(code, origin, -1);
  const along = ({ vector }: PlaneAxis): number => {
    const size = dot(vector, vector);
    return size > 0 ? dot(from, vector) / size : 0;
  };
  return [along(xAxis), along(yAxis)];
}

/** The distance of a code from the plane. */
export function distanceToPlane(plane: LatentPlane, code: ArrayLike<number>): number {
  const [a, b] = projectCode(plane, code);
  return norm(
    addScaled(
      addScaled(addScaled(code, plane.origin, -1), plane.xAxis.vector, -a),
      plane.yAxis.vector,
      -b,
    ),
  );
}

/** The range of the data with a margin; at least `minExtent` to both sides of `center`. */
function axisRange(
  values: Iterable<number>,
  center: number,
  minExtent: number,
): readonly [number, number] {
  let [low, high] = [center - minExtent, center + minExtent];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const margin = RANGE_MARGIN_FRACTION * (high - low);
  return [low - margin, high + margin];
}

function* projections(codes: LatentCodes, origin: ArrayLike<number>, direction: ArrayLike<number>) {
  const size = dot(direction, direction);
  const from = dot(origin, direction);
  for (let at = 0; at < codes.count; at++) {
    if (size > 0) yield (dot(codeAt(codes, at), direction) - from) / size;
  }
}

function makeAxis(
  name: string,
  vector: Float64Array,
  codes: LatentCodes | null,
  origin: ArrayLike<number>,
  [middle, least]: readonly [number, number],
): PlaneAxis {
  const [low, high] = axisRange(
    codes === null ? [] : projections(codes, origin, vector),
    middle,
    least,
  );
  return { name, vector, low, high };
}

/** The available kinds of axes: two pictures and principal directions need data. */
export const availableAxisKinds = (codes: LatentCodes | null): readonly AxisKind[] =>
  codes === null || codes.count < 2 ? ["units"] : ["pca", "units", "between"];

/**
 * Build the plane of a choice. "units": two units vary and the others stay at the current code. "between": from the
 * first picture's code to the second's, and at a right angle along the first principal direction.
 */
export function makePlane(
  choice: AxisChoice,
  codes: LatentCodes | null,
  /** The current code; used only by "units". */
  currentCode: ArrayLike<number> | null,
): LatentPlane {
  const { axisKind } = choice;
  if (codes === null || axisKind === "units")
    return unitsPlane(choice.units, codes, currentCode ?? []);
  if (axisKind === "pca") {
    const origin = Float64Array.from(codes.mean);
    const principal = (k: 0 | 1): PlaneAxis => {
      const name = `PC ${k + 1}`;
      const least = MIN_EXTENT_DEVIATIONS * codes.deviations[k] || 1;
      return makeAxis(name, Float64Array.from(codes.directions[k]), codes, origin, [0, least]);
    };
    return { origin, xAxis: principal(0), yAxis: principal(1), name: "pca" };
  }
  const [a, b] = choice.pictures.map((at) => clamp(at, 0, codes.count - 1)) as [number, number];
  const origin = Float64Array.from(codeAt(codes, a));
  const vector = addScaled(codeAt(codes, b), origin, -1);
  const first = Float64Array.from(codes.directions[0]);
  const size = dot(vector, vector);
  const square = size > 0 ? addScaled(first, vector, -dot(first, vector) / size) : first;
  const length = norm(square);
  // If the two pictures differ along that same direction, use the second principal direction, which is orthogonal.
  const own =
    length > 1e-6 ? square.map((one) => one / length) : Float64Array.from(codes.directions[1]);
  const least = MIN_EXTENT_DEVIATIONS * (codes.deviations[length > 1e-6 ? 0 : 1] || 1);
  return {
    origin,
    xAxis: { name: "A to B", vector, low: -0.25, high: 1.25 },
    yAxis: { name: length > 1e-6 ? "PC 1" : "PC 2", vector: own, low: -least, high: least },
    name: `between ${a} ${b}`,
  };
}

function unitsPlane(
  units: readonly [number, number],
  codes: LatentCodes | null,
  currentCode: ArrayLike<number>,
): LatentPlane {
  const numbers = currentCode.length;
  const [a, b] = units.map((at) => clamp(at, 0, numbers - 1)) as [number, number];
  const origin = Float64Array.from(currentCode);
  origin[a] = 0;
  origin[b] = 0;
  const own = (at: number): PlaneAxis => {
    const far = Math.max(DEFAULT_EXTENT, Math.abs(currentCode[at] ?? 0));
    const ends =
      codes === null
        ? [0, far]
        : [codes.mean[at] ?? 0, MIN_EXTENT_DEVIATIONS * (codes.std[at] || 1)];
    return makeAxis(`Unit ${at}`, unitVector(numbers, at), codes, origin, ends as [number, number]);
  };
  const others = Array.from(origin, Math.fround).join();
  return { origin, xAxis: own(a), yAxis: own(b), name: `units ${a} ${b} of ${others}` };
}

/**
 * A unit's slider range: three standard deviations around the mean, extended to 0 and the initial value; without data,
 * symmetric around 0.
 */
export function sliderRange(
  codes: LatentCodes | null,
  unit: number,
  initialValue: number,
): [number, number] {
  const far = Math.max(DEFAULT_EXTENT, Math.abs(initialValue));
  if (codes === null) return [-far, far];
  const [mean, std] = [codes.mean[unit] ?? 0, codes.std[unit] || 1];
  const low = Math.min(mean - DEFAULT_EXTENT * std, initialValue, 0);
  const high = Math.max(mean + DEFAULT_EXTENT * std, initialValue, 0);
  return [low, high];
}

/** Cells along each side of the grid. */
export const GRID_CELLS = 8;

/** The point at the centre of a cell; row 0 is at the top. */
export function cellCenter({ xAxis, yAxis }: LatentPlane, column: number, row: number): PlanePoint {
  const at = ({ low, high }: PlaneAxis, k: number) => low + ((k + 0.5) / GRID_CELLS) * (high - low);
  return [at(xAxis, column), at(yAxis, GRID_CELLS - 1 - row)];
}

/** The cell that contains a point; null outside the grid. */
export function cellAtPoint(
  { xAxis, yAxis }: LatentPlane,
  [a, b]: PlanePoint,
): readonly [number, number] | null {
  const at = ({ low, high }: PlaneAxis, value: number) =>
    Math.floor((GRID_CELLS * (value - low)) / (high - low));
  const [column, row] = [at(xAxis, a), GRID_CELLS - 1 - at(yAxis, b)];
  const inside = (k: number) => k >= 0 && k < GRID_CELLS;
  return inside(column) && inside(row) ? [column, row] : null;
}
