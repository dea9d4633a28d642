// The plane through the codes that the pad, its scatter and the grid share: two directions, and where they are cut off.
import { type Codes, codeAt } from "./codes.ts";
import { clamp, dot, lengthOf, plus, unit } from "./numbers.ts";

export type Axes = "pca" | "units" | "between";

/** What people have chosen: which axes, and what two of them are of. */
export interface Choice {
  readonly axes: Axes;
  readonly units: readonly [number, number];
  /** Places among the items whose codes are known. */
  readonly pictures: readonly [number, number];
}

/** One direction: codes change by `step` for each of its units, which are counted from `low` to `high`. */
export interface Direction {
  readonly name: string;
  readonly step: Float64Array;
  readonly low: number;
  readonly high: number;
}

export interface Plane {
  /** The code at 0, 0. */
  readonly origin: Float64Array;
  readonly across: Direction;
  readonly up: Direction;
  /** Planes of one name are the same. */
  readonly name: string;
}

export type Point = readonly [across: number, up: number];

/** Deviations to each side that are shown at least. */
const SIDES = 2.5;
const MARGIN = 0.05;
/** Where nothing is known of how far codes go. */
const REACH = 3;

/** The code at a point of the plane, as float32. */
export function codeOn({ origin, across, up }: Plane, [a, b]: Point): number[] {
  const found = plus(plus(origin, across.step, a), up.step, b);
  return Array.from(found, Math.fround);
}

/** The point of the plane that is nearest to a code: the directions are at right angles. */
export function pointOf({ origin, across, up }: Plane, code: ArrayLike<number>): Point {
  const from = plus(code, origin, -1);
  const along = ({ step }: Direction): number => {
    const size = dot(step, step);
    return size > 0 ? dot(from, step) / size : 0;
  };
  return [along(across), along(up)];
}

/** How far a code lies from the plane. */
export function distance(plane: Plane, code: ArrayLike<number>): number {
  const [a, b] = pointOf(plane, code);
  return lengthOf(
    plus(plus(plus(code, plane.origin, -1), plane.across.step, -a), plane.up.step, -b),
  );
}

/** From the least to the greatest of what the data has, with a margin; at least `least` to both sides of `middle`. */
function reach(values: Iterable<number>, middle: number, least: number): readonly [number, number] {
  let [low, high] = [middle - least, middle + least];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const margin = MARGIN * (high - low);
  return [low - margin, high + margin];
}

function* along(codes: Codes, origin: ArrayLike<number>, step: ArrayLike<number>) {
  const size = dot(step, step);
  const from = dot(origin, step);
  for (let at = 0; at < codes.count; at++) {
    if (size > 0) yield (dot(codeAt(codes, at), step) - from) / size;
  }
}

function directed(
  name: string,
  step: Float64Array,
  codes: Codes | null,
  origin: ArrayLike<number>,
  [middle, least]: readonly [number, number],
): Direction {
  const [low, high] = reach(codes === null ? [] : along(codes, origin, step), middle, least);
  return { name, step, low, high };
}

/** Which axes there can be: two pictures and principal directions need data. */
export const axesOf = (codes: Codes | null): readonly Axes[] =>
  codes === null || codes.count < 2 ? ["units"] : ["pca", "units", "between"];

/**
 * The plane of a choice. In that of two units the others stay as the code of now has them; that of two pictures goes
 * from the first one's code to the second's, and at a right angle along the first principal direction.
 */
export function planeOf(
  choice: Choice,
  codes: Codes | null,
  /** Only that of units depends on it. */
  now: ArrayLike<number> | null,
): Plane {
  const { axes } = choice;
  if (codes === null || axes === "units") return unitsPlane(choice.units, codes, now ?? []);
  if (axes === "pca") {
    const origin = Float64Array.from(codes.mean);
    const principal = (k: 0 | 1): Direction => {
      const name = `PC ${k + 1}`;
      const least = SIDES * codes.deviations[k] || 1;
      return directed(name, Float64Array.from(codes.directions[k]), codes, origin, [0, least]);
    };
    return { origin, across: principal(0), up: principal(1), name: "pca" };
  }
  const [a, b] = choice.pictures.map((at) => clamp(at, 0, codes.count - 1)) as [number, number];
  const origin = Float64Array.from(codeAt(codes, a));
  const step = plus(codeAt(codes, b), origin, -1);
  const first = Float64Array.from(codes.directions[0]);
  const size = dot(step, step);
  const square = size > 0 ? plus(first, step, -dot(first, step) / size) : first;
  const length = lengthOf(square);
  // Two pictures along that very direction: the second one, then, which is at a right angle.
  const own =
    length > 1e-6 ? square.map((one) => one / length) : Float64Array.from(codes.directions[1]);
  const least = SIDES * (codes.deviations[length > 1e-6 ? 0 : 1] || 1);
  return {
    origin,
    across: { name: "A to B", step, low: -0.25, high: 1.25 },
    up: { name: length > 1e-6 ? "PC 1" : "PC 2", step: own, low: -least, high: least },
    name: `between ${a} ${b}`,
  };
}

function unitsPlane(
  units: readonly [number, number],
  codes: Codes | null,
  now: ArrayLike<number>,
): Plane {
  const numbers = now.length;
  const [a, b] = units.map((at) => clamp(at, 0, numbers - 1)) as [number, number];
  const origin = Float64Array.from(now);
  origin[a] = 0;
  origin[b] = 0;
  const own = (at: number): Direction => {
    const far = Math.max(REACH, Math.abs(now[at] ?? 0));
    const ends = codes === null ? [0, far] : [codes.mean[at] ?? 0, SIDES * (codes.std[at] || 1)];
    return directed(`Unit ${at}`, unit(numbers, at), codes, origin, ends as [number, number]);
  };
  const others = Array.from(origin, Math.fround).join();
  return { origin, across: own(a), up: own(b), name: `units ${a} ${b} of ${others}` };
}

/** The range of a number's slider: as far as the data goes and three deviations, and around the code of now. */
export function sliderRange(codes: Codes | null, at: number, first: number): [number, number] {
  const far = Math.max(REACH, Math.abs(first));
  if (codes === null) return [-far, far];
  const [mean, std] = [codes.mean[at] ?? 0, codes.std[at] || 1];
  const low = Math.min(mean - REACH * std, first, 0);
  const high = Math.max(mean + REACH * std, first, 0);
  return [low, high];
}

/** Cells along each side of the grid. */
export const CELLS = 8;

/** The point in the middle of a cell; row 0 is on top. */
export function cellPoint({ across, up }: Plane, column: number, row: number): Point {
  const at = ({ low, high }: Direction, k: number) => low + ((k + 0.5) / CELLS) * (high - low);
  return [at(across, column), at(up, CELLS - 1 - row)];
}

/** The cell that a point is in; null beside the grid. */
export function cellOf({ across, up }: Plane, [a, b]: Point): readonly [number, number] | null {
  const at = ({ low, high }: Direction, value: number) =>
    Math.floor((CELLS * (value - low)) / (high - low));
  const [column, row] = [at(across, a), CELLS - 1 - at(up, b)];
  const inside = (k: number) => k >= 0 && k < CELLS;
  return inside(column) && inside(row) ? [column, row] : null;
}
