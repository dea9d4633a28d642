// Where a window lies over a map: the rows and columns that its taps read, in the input or outside of it.
import type { Layer, Window } from "../plan/schema.ts";
import { REPEATED, repeats } from "./repeated.ts";

/** "padding": outside the map. "inserted": between two of its pixels, where a transposed convolution has zeros. */
export type State = "input" | "padding" | "inserted";

/** What one row or one column of a kernel reads. */
export interface Line {
  /** The row or column of the kernel. */
  readonly tap: number;
  /** The row or column of the input; of the map with inserted zeros where it isn't in the input. */
  readonly at: number;
  readonly state: State;
  /** Where the tap stands outside of the map, where padding there repeats what is at `at`. */
  readonly stands?: number;
}

/** Where a tap stands, over the map or outside of it. */
export const standsAt = ({ at, stands }: Line): number => stands ?? at;

/** A window over a map at one position. */
export interface Lines {
  readonly rows: readonly Line[];
  readonly columns: readonly Line[];
}

/** Of a transposed convolution also: which of the stride's phases the position has. */
export interface Phased extends Lines {
  readonly phase: readonly [number, number];
  readonly strides: readonly [number, number];
  /** The taps that meet pixels at this phase, or padding beyond them: an ordinary filter over the map. */
  readonly filter: Lines;
}

interface Axis {
  readonly size: number;
  readonly kernel: number;
  readonly stride: number;
  readonly dilation: number;
  readonly begin: number;
}

/** Both axes; a line of numbers is a map of one row. Null for volumes, and where the numbers don't fit together. */
function axesOf(window: Window, spatial: readonly number[]): readonly [Axis, Axis] | null {
  const rank = spatial.length;
  const { kernel, strides, dilations, begins } = window;
  // What only pads has no kernel.
  const given = [kernel, strides, dilations].every(({ length }) => length === 0 || length === rank);
  if (rank < 1 || rank > 2 || begins.length !== rank || !given) return null;
  const axis = (i: number): Axis => ({
    size: spatial[i] ?? 1,
    kernel: kernel[i] ?? 1,
    stride: strides[i] ?? 1,
    dilation: dilations[i] ?? 1,
    begin: begins[i] ?? 0,
  });
  const single = { size: 1, kernel: 1, stride: 1, dilation: 1, begin: 0 };
  return rank === 1 ? [single, axis(0)] : [axis(0), axis(1)];
}

/** The last two of an output's coordinates; a line of numbers has row 0. */
const pixelOf = (at: readonly number[]): readonly [number, number] =>
  at.length > 3 ? [at[2] ?? 0, at[3] ?? 0] : [0, at[2] ?? 0];

/** What each place along the kernel's sides is, for an output at these coordinates. */
function linesOf(
  axes: readonly [Axis, Axis],
  at: readonly number[],
  line: (axis: Axis, output: number, place: number) => Line,
): Lines {
  const [y, x] = pixelOf(at);
  const along = (axis: Axis, output: number) =>
    Array.from({ length: axis.kernel }, (_, place) => line(axis, output, place));
  return { rows: along(axes[0], y), columns: along(axes[1], x) };
}

/** What a convolution or pool reads for an output at these coordinates; `mode`: of padding other than zeros. */
export function slidingLines(
  window: Window,
  spatial: readonly number[],
  at: readonly number[],
  mode?: unknown,
): Lines | null {
  const axes = axesOf(window, spatial);
  return (
    axes &&
    linesOf(axes, at, ({ size, stride, dilation, begin }, output, tap) => {
      const from = output * stride - begin + tap * dilation;
      if (from >= 0 && from < size) return { tap, at: from, state: "input" };
      return repeats(mode) === null
        ? { tap, at: from, state: "padding" }
        : {
            tap,
            at: REPEATED[mode as keyof typeof REPEATED](from, size),
            state: "input",
            stands: from,
          };
    })
  );
}

/** Whether each place of a layer's output joins a share of the map, and the shares may differ in size. */
export const isAdaptive = ({ attributes }: Layer): boolean => Array.isArray(attributes.output_size);

/** What an adaptive pool reads for an output at these coordinates: the share of the map that this place of so many has. */
export function shareLines(
  spatial: readonly number[],
  places: readonly number[],
  at: readonly number[],
): Lines | null {
  if (spatial.length < 1 || spatial.length > 2 || places.length !== spatial.length) return null;
  const along = (axis: number, output: number): Line[] => {
    const [size, count] = [spatial.at(axis) ?? 1, places.at(axis) ?? 1];
    const from = Math.floor((output * size) / count);
    const end = Math.ceil(((output + 1) * size) / count);
    return Array.from({ length: end - from }, (_, tap) => ({
      tap,
      at: from + tap,
      state: "input",
    }));
  };
  const [y, x] = pixelOf(at);
  const single: Line = { tap: 0, at: 0, state: "input" };
  return { rows: spatial.length > 1 ? along(-2, y) : [single], columns: along(-1, x) };
}

/** The same for a transposed convolution: the flipped kernel over the map with zeros inserted. */
export function transposedLines(
  window: Window,
  spatial: readonly number[],
  at: readonly number[],
): Phased | null {
  const axes = axesOf(window, spatial);
  if (axes === null) return null;
  const lines = linesOf(axes, at, ({ size, kernel, stride, dilation, begin }, output, i) => {
    const tap = kernel - 1 - i;
    const wide = output + begin - tap * dilation;
    if (wide < 0 || wide > (size - 1) * stride) return { tap, at: wide, state: "padding" };
    if (wide % stride !== 0) return { tap, at: wide, state: "inserted" };
    return { tap, at: wide / stride, state: "input" };
  });
  const [y, x] = pixelOf(at);
  const filter = (axis: Axis, output: number): Line[] =>
    Array.from({ length: axis.kernel }, (_, i) => axis.kernel - 1 - i).flatMap((tap) => {
      const wide = output + axis.begin - tap * axis.dilation;
      if (wide % axis.stride !== 0) return [];
      const from = wide / axis.stride;
      return [{ tap, at: from, state: from >= 0 && from < axis.size ? "input" : "padding" }];
    });
  return {
    ...lines,
    filter: { rows: filter(axes[0], y), columns: filter(axes[1], x) },
    phase: [(y + axes[0].begin) % axes[0].stride, (x + axes[1].begin) % axes[1].stride],
    strides: [axes[0].stride, axes[1].stride],
  };
}

/** What a tap reads, by its row and its column. */
export function stateOf(row: Line, column: Line): State {
  if (row.state === "inserted" || column.state === "inserted") return "inserted";
  return row.state === "padding" || column.state === "padding" ? "padding" : "input";
}

/** "19–22"; with gaps "3, 5, 7", beyond the border "0–1 (1 outside)", where it repeats "1, 0, 1 (mirrored at the border)". */
function span(lines: readonly Line[], border: string): string {
  const places = lines.filter((line) => line.state !== "padding").map((line) => line.at);
  const [first = 0, last = 0] = [places[0], places.at(-1)];
  if (places.some((at, i) => i > 0 && at <= (places[i - 1] ?? 0)))
    return `${places.join(", ")} (${border} at the border)`;
  const close = last - first === places.length - 1;
  const words = close && places.length > 1 ? `${first}–${last}` : places.join(", ");
  const beyond = lines.length - places.length;
  return beyond > 0 ? `${words || "none"} (${beyond} outside)` : words;
}

/** "rows 19–22, columns 15–18": what a window reads, in the order of its taps. */
export function spansOf({ rows, columns }: Lines, flat: boolean, mode?: unknown): string {
  const border = repeats(mode) ?? "repeated";
  return `${flat ? "" : `rows ${span(rows, border)}, `}columns ${span(columns, border)}`;
}
