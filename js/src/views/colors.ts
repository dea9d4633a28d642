// Colour maps outside WebGL: for legends, and for kernels painted by the CPU.

import { colorMapTexels, colorMapTextureLayer, toLinear } from "../pictures/colormaps.ts";
import { COLORMAP_TEXEL_COUNT } from "../pictures/colortables.ts";
import type { ColorMapName, Theme } from "../plan/runtime.ts";

type Rgb = readonly [number, number, number];

let texels: Uint8Array | null = null;

/** A colour map as a function of a position from 0 to 1; 0.5 is zero in the signed map. */
export function colorTable(colorMap: ColorMapName, theme: Theme): (place: number) => Rgb {
  texels ??= colorMapTexels();
  const all = texels;
  const start = colorMapTextureLayer(colorMap, theme) * COLORMAP_TEXEL_COUNT;
  // Zero is at texel 256 of the signed map; both ends are 255 texels away.
  const [low, steps] =
    colorMap === "signed" ? [1, COLORMAP_TEXEL_COUNT - 2] : [0, COLORMAP_TEXEL_COUNT - 1];
  return (place) => {
    const at = (start + low + Math.round(Math.min(1, Math.max(0, place)) * steps)) * 4;
    return [all[at] ?? 0, all[at + 1] ?? 0, all[at + 2] ?? 0];
  };
}

/** A CSS gradient of a colour map between two positions. */
export function cssGradient(
  colorMap: ColorMapName,
  theme: Theme,
  from: number,
  to: number,
): string {
  const table = colorTable(colorMap, theme);
  const steps = 24;
  const stops = Array.from({ length: steps + 1 }, (_, i) => {
    return `rgb(${table(from + ((to - from) * i) / steps).join(" ")})`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

/** Black or white, whichever contrasts more with a colour (relative luminance of WCAG 2). */
export function textColorOn([r, g, b]: Rgb): string {
  const light = 0.2126 * toLinear(r) + 0.7152 * toLinear(g) + 0.0722 * toLinear(b);
  return (light + 0.05) ** 2 > 0.05 * 1.05 ? "#000" : "#fff";
}
