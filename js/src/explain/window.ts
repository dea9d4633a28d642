// The taps of a window over a map: the rows and columns that it reads, inside the input or outside.
import type { Layer, Window } from "../plan/schema.ts";
import { PADDED_INDEX_BY_MODE, paddingModeText } from "./padding_modes.ts";

/** "padding": outside the map. "inserted": a zero that a transposed convolution inserts between two pixels. */
export type TapState = "input" | "padding" | "inserted";

/** The position that one row or column of a kernel reads. */
export interface AxisTap {
  /** The row or column of the kernel. */
  readonly tap: number;
  /** The row or column of the input. For a tap outside the input: the row or column of the map with inserted zeros. */
  readonly inputIndex: number;
  readonly state: TapState;
  /** The position outside the map, if padding there repeats the element at `inputIndex`. */
  readonly outsideIndex?: number;
}

/** The position of a tap, inside the map or outside. */
export const tapPosition = ({ inputIndex, outsideIndex }: AxisTap): number =>
  outsideIndex ?? inputIndex;

/** A window over a map at one position. */
export interface WindowTaps {
  readonly rows: readonly AxisTap[];
  readonly columns: readonly AxisTap[];
}

/** Taps of a transposed convolution, with the phase of the output position within the stride. */
export interface TransposedTaps extends WindowTaps {
  readonly phase: readonly [number, number];
  readonly strides: readonly [number, number];
  /** The taps that meet pixels at this phase, or padding beyond them: an ordinary filter over the map. */
  readonly phaseTaps: WindowTaps;
}

interface WindowAxis {
  readonly size: number;
  readonly kernel: number;
  readonly stride: number;
  readonly dilation: number;
  readonly padBegin: number;
}

/** Both axes of a window; a 1D map has a single row. Null for volumes and for inconsistent ranks. */
function windowAxes(
  window: Window,
  spatial: readonly number[],
): readonly [WindowAxis, WindowAxis] | null {
  const rank = spatial.length;
  const { kernel, strides, dilations, pads_begin } = window;
  // A Pad has no kernel.
  const given = [kernel, strides, dilations].every(({ length }) => length === 0 || length === rank);
  if (rank < 1 || rank > 2 || pads_begin.length !== rank || !given) return null;
  const axis = (i: number): WindowAxis => ({
    size: spatial[i] ?? 1,
    kernel: kernel[i] ?? 1,
    stride: strides[i] ?? 1,
    dilation: dilations[i] ?? 1,
    padBegin: pads_begin[i] ?? 0,
  });
  const single = { size: 1, kernel: 1, stride: 1, dilation: 1, padBegin: 0 };
  return rank === 1 ? [single, axis(0)] : [axis(0), axis(1)];
}

/** The row and column of an output's coordinates; a 1D map has row 0. */
const pixelOf = (coords: readonly number[]): readonly [number, number] =>
  coords.length > 3 ? [coords[2] ?? 0, coords[3] ?? 0] : [0, coords[2] ?? 0];

/** The taps along both sides of a kernel, for an output at these coordinates. */
function windowTaps(
  axes: readonly [WindowAxis, WindowAxis],
  coords: readonly number[],
  tapAt: (axis: WindowAxis, output: number, place: number) => AxisTap,
): WindowTaps {
  const [y, x] = pixelOf(coords);
  const along = (axis: WindowAxis, output: number) =>
    Array.from({ length: axis.kernel }, (_, place) => tapAt(axis, output, place));
  return { rows: along(axes[0], y), columns: along(axes[1], x) };
}

/**
 * The taps of a convolution or pool for an output at these coordinates; `paddingMode`: the padding mode if not zeros.
 */
export function slidingTaps(
  window: Window,
  spatial: readonly number[],
  coords: readonly number[],
  paddingMode?: unknown,
): WindowTaps | null {
  const axes = windowAxes(window, spatial);
  return (
    axes &&
    windowTaps(axes, coords, ({ size, stride, dilation, padBegin }, output, tap) => {
      const from = output * stride - padBegin + tap * dilation;
      if (from >= 0 && from < size) return { tap, inputIndex: from, state: "input" };
      return paddingModeText(paddingMode) === null
        ? { tap, inputIndex: from, state: "padding" }
        : {
            tap,
            inputIndex: PADDED_INDEX_BY_MODE[paddingMode as keyof typeof PADDED_INDEX_BY_MODE](
              from,
              size,
            ),
            state: "input",
            outsideIndex: from,
          };
    })
  );
}

/** Whether a layer is an adaptive pool, whose windows may differ in size. */
export const isAdaptivePool = ({ attributes }: Layer): boolean =>
  Array.isArray(attributes.output_size);

/** The taps of an adaptive pool for an output at these coordinates: this position's share of the map. */
export function adaptiveTaps(
  spatial: readonly number[],
  outputSizes: readonly number[],
  coords: readonly number[],
): WindowTaps | null {
  if (spatial.length < 1 || spatial.length > 2 || outputSizes.length !== spatial.length)
    return null;
  const along = (axis: number, output: number): AxisTap[] => {
    const [size, count] = [spatial.at(axis) ?? 1, outputSizes.at(axis) ?? 1];
    const from = Math.floor((output * size) / count);
    const end = Math.ceil(((output + 1) * size) / count);
    return Array.from({ length: end - from }, (_, tap) => ({
      tap,
      inputIndex: from + tap,
      state: "input",
    }));
  };
  const [y, x] = pixelOf(coords);
  const single: AxisTap = { tap: 0, inputIndex: 0, state: "input" };
  return { rows: spatial.length > 1 ? along(-2, y) : [single], columns: along(-1, x) };
}

/** The taps of a transposed convolution: the flipped kernel over the map with inserted zeros. */
export function transposedTaps(
  window: Window,
  spatial: readonly number[],
  coords: readonly number[],
): TransposedTaps | null {
  const axes = windowAxes(window, spatial);
  if (axes === null) return null;
  const lines = windowTaps(
    axes,
    coords,
    ({ size, kernel, stride, dilation, padBegin }, output, i) => {
      const tap = kernel - 1 - i;
      const dilatedIndex = output + padBegin - tap * dilation;
      if (dilatedIndex < 0 || dilatedIndex > (size - 1) * stride)
        return { tap, inputIndex: dilatedIndex, state: "padding" };
      if (dilatedIndex % stride !== 0) return { tap, inputIndex: dilatedIndex, state: "inserted" };
      return { tap, inputIndex: dilatedIndex / stride, state: "input" };
    },
  );
  const [y, x] = pixelOf(coords);
  const filter = (axis: WindowAxis, output: number): AxisTap[] =>
    Array.from({ length: axis.kernel }, (_, i) => axis.kernel - 1 - i).flatMap((tap) => {
      const dilatedIndex = output + axis.padBegin - tap * axis.dilation;
      if (dilatedIndex % axis.stride !== 0) return [];
      const from = dilatedIndex / axis.stride;
      return [
        { tap, inputIndex: from, state: from >= 0 && from < axis.size ? "input" : "padding" },
      ];
    });
  return {
    ...lines,
    phaseTaps: { rows: filter(axes[0], y), columns: filter(axes[1], x) },
    phase: [(y + axes[0].padBegin) % axes[0].stride, (x + axes[1].padBegin) % axes[1].stride],
    strides: [axes[0].stride, axes[1].stride],
  };
}

/** The state of a tap, from those of its row and column. */
export function tapState(row: AxisTap, column: AxisTap): TapState {
  if (row.state === "inserted" || column.state === "inserted") return "inserted";
  return row.state === "padding" || column.state === "padding" ? "padding" : "input";
}

/**
 * The rows or columns as text: "19–22"; with gaps "3, 5, 7"; beyond the border "0–1 (1 outside)"; with repeating
 * padding "1, 0, 1 (mirrored at the border)".
 */
function spanText(taps: readonly AxisTap[], borderText: string): string {
  const places = taps.filter((line) => line.state !== "padding").map((line) => line.inputIndex);
  const [first = 0, last = 0] = [places[0], places.at(-1)];
  if (places.some((at, i) => i > 0 && at <= (places[i - 1] ?? 0)))
    return `${places.join(", ")} (${borderText} at the border)`;
  const close = last - first === places.length - 1;
  const words = close && places.length > 1 ? `${first}–${last}` : places.join(", ");
  const beyond = taps.length - places.length;
  return beyond > 0 ? `${words || "none"} (${beyond} outside)` : words;
}

/** The rows and columns that a window reads, in the order of its taps: "rows 19–22, columns 15–18". */
export function windowText(
  { rows, columns }: WindowTaps,
  isFlat: boolean,
  paddingMode?: unknown,
): string {
  const border = paddingModeText(paddingMode) ?? "repeated";
  return `${isFlat ? "" : `rows ${spanText(rows, border)}, `}columns ${spanText(columns, border)}`;
}
