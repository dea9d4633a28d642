// The colour maps as bytes, one row of 512 texels each, and a row of marks for non-finite values.
import { CLASS_COLORS, SIGNED_STOPS } from "../messages.ts";
import type { ColorMapName, Theme } from "../plan/runtime.ts";
import {
  CIVIDIS,
  COLORMAP_TEXEL_COUNT,
  MAGMA,
  NON_FINITE_COLOR,
  SIGNED_ZERO_TEXEL,
  VIRIDIS,
} from "./colortables.ts";

export type Rgb = readonly [number, number, number];

const greyMap = (t: number): Rgb => [t * 255, t * 255, t * 255];
const SEQUENTIAL_COLORMAPS = [
  colormapFromTable(VIRIDIS),
  colormapFromTable(CIVIDIS),
  colormapFromTable(MAGMA),
  greyMap,
];
const SEQUENTIAL_COLORMAP_NAMES = ["viridis", "cividis", "magma", "grey"] as const;

/** The layer of the colour-map texture for a draw job. */
export function colorMapTextureLayer(map: ColorMapName, theme: Theme): number {
  return map === "signed"
    ? theme === "light"
      ? 0
      : 1
    : 2 + SEQUENTIAL_COLORMAP_NAMES.indexOf(map);
}

/** The row after the maps; its thirds are transparent, magenta and black. */
export const MARKS_TEXTURE_LAYER = 2 + SEQUENTIAL_COLORMAP_NAMES.length;
const NON_FINITE_MARK_COLORS = [
  [0, 0, 0, 0],
  [...NON_FINITE_COLOR, 255],
  [0, 0, 0, 255],
];

/** The row after the marks: one texel for each class. */
export const CLASSES_TEXTURE_LAYER = MARKS_TEXTURE_LAYER + 1;
const CLASS_PALETTE = CLASS_COLORS.split(" ").map(parseColor);
/** The number of distinct class colours: CLASS_COLORS, then lighter, then darker variants. */
export const CLASS_COLOR_COUNT = CLASS_PALETTE.length * 3;

/** The colour of a class. */
export function classColor(classIndex: number): Rgb {
  const [r, g, b] = CLASS_PALETTE[classIndex % CLASS_PALETTE.length] ?? [0, 0, 0];
  const turn = Math.floor(classIndex / CLASS_PALETTE.length) % 3;
  const mixed = (byte: number) => [byte, byte * 0.55 + 115, byte * 0.55][turn] ?? byte;
  return [mixed(r), mixed(g), mixed(b)];
}

/** The texels of all maps, as RGBA bytes: in the order of `colorMapTextureLayer`, then the marks, then the classes. */
export function colorMapTexels(): Uint8Array {
  const rows = [
    ...([SIGNED_STOPS.light, SIGNED_STOPS.dark] as const).map((stops) => {
      const at = colorRamp(stops.split(" ").map(parseColor));
      return (k: number) =>
        at(Math.max(-1, (k - SIGNED_ZERO_TEXEL) / (SIGNED_ZERO_TEXEL - 1)) / 2 + 0.5);
    }),
    ...SEQUENTIAL_COLORMAPS.map((at) => (k: number) => at(k / (COLORMAP_TEXEL_COUNT - 1))),
  ];
  const bytes = new Uint8Array((rows.length + 2) * COLORMAP_TEXEL_COUNT * 4);
  for (const [row, at] of rows.entries()) {
    for (let k = 0; k < COLORMAP_TEXEL_COUNT; k++) {
      bytes.set([...at(k).map(Math.round), 255], (row * COLORMAP_TEXEL_COUNT + k) * 4);
    }
  }
  for (let k = 0; k < COLORMAP_TEXEL_COUNT; k++) {
    const mark =
      NON_FINITE_MARK_COLORS[
        Math.floor((k * NON_FINITE_MARK_COLORS.length) / COLORMAP_TEXEL_COUNT)
      ] ?? [];
    bytes.set(mark, (MARKS_TEXTURE_LAYER * COLORMAP_TEXEL_COUNT + k) * 4);
    bytes.set(
      [...classColor(k).map(Math.round), 255],
      (CLASSES_TEXTURE_LAYER * COLORMAP_TEXEL_COUNT + k) * 4,
    );
  }
  return bytes;
}

/** Interpolate equidistant stops in linear light. */
export function colorRamp(stops: readonly Rgb[]): (t: number) => Rgb {
  const linear = stops.map(([r, g, b]) => [toLinear(r), toLinear(g), toLinear(b)] as const);
  return (t) => {
    const place = Math.min(1, Math.max(0, t)) * (linear.length - 1);
    const k = Math.min(Math.floor(place), linear.length - 2);
    const [from = [0, 0, 0], to = [0, 0, 0]] = linear.slice(k, k + 2);
    const mix = (i: 0 | 1 | 2) => toByte(from[i] + (to[i] - from[i]) * (place - k));
    return [mix(0), mix(1), mix(2)];
  };
}

/** A table as a function from 0…1 to its nearest colour. */
function colormapFromTable(table: string): (t: number) => Rgb {
  const bytes = atob(table);
  const count = bytes.length / 3;
  return (t) => {
    const at = 3 * Math.min(count - 1, Math.floor(t * count));
    return [bytes.charCodeAt(at), bytes.charCodeAt(at + 1), bytes.charCodeAt(at + 2)];
  };
}

/** Parse "#rrggbb" or "rgb(r, g, b)" into components from 0 to 255. */
export function parseColor(colour: string): Rgb {
  const hex = /^#(..)(..)(..)$/.exec(colour)?.slice(1);
  const [r = 0, g = 0, b = 0] = hex
    ? hex.map((pair) => Number.parseInt(pair, 16))
    : (colour.match(/[\d.]+/g) ?? []).map(Number);
  return [r, g, b];
}

/** sRGB's transfer function (IEC 61966-2-1). */
export function toLinear(byte: number): number {
  const s = byte / 255;
  return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
}

function toByte(linear: number): number {
  const s = linear <= 0.0031308 ? linear * 12.92 : 1.055 * linear ** (1 / 2.4) - 0.055;
  return s * 255;
}
