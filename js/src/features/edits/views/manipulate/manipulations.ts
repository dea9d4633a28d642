// Manipulations of a picture: bends by the words for pictures, with sliders for values from 0 to 1.

import type { Edit, Parameter, Transform } from "../../../../plan/edits.ts";
import { fits, TRANSFORMS } from "../stack.ts";

interface Sides {
  readonly height: number;
  readonly width: number;
}

export interface Manipulation {
  readonly word: string;
  readonly transform: string;
  /** Number of the parameter that stands in the row; the first by default. */
  readonly main?: number;
  /** From where to where its slider goes, and its steps. */
  readonly slider?: (sides: Sides) => Partial<Pick<Parameter, "low" | "high" | "step">>;
  /** What it begins with, where that isn't the transform's own. */
  readonly start?: (sides: Sides) => readonly number[];
}

export const MANIPULATIONS: readonly Manipulation[] = [
  { word: "Blur", transform: "blur" },
  { word: "Sharpen", transform: "sharpen" },
  { word: "Edges", transform: "edges" },
  { word: "Threshold", transform: "threshold", slider: () => ({ low: 0, high: 1 }) },
  { word: "Invert", transform: "invert" },
  {
    word: "Brightness",
    transform: "multiply",
    slider: () => ({ low: 0, high: 3 }),
    start: () => [1.3],
  },
  { word: "Contrast", transform: "contrast", slider: () => ({ high: 3 }) },
  { word: "Saturation", transform: "saturation", slider: () => ({ high: 3 }) },
  { word: "Rotate", transform: "rotate", start: () => [15] },
  { word: "Flip left–right", transform: "flip_h" },
  { word: "Flip up–down", transform: "flip_v" },
  { word: "Zoom", transform: "scale" },
  {
    word: "Pixelate",
    transform: "pixelate",
    slider: (sides) => ({ high: Math.min(64, Math.max(2, Math.ceil(longest(sides) / 2))) }),
    start: (sides) => [Math.min(16, Math.max(2, Math.round(shortest(sides) / 14)))],
  },
  {
    word: "Noise",
    transform: "noise",
    slider: () => ({ high: 1, step: 0.01 }),
    start: () => [0.1, 0],
  },
  { word: "Salt and pepper", transform: "salt_and_pepper" },
  {
    word: "Occlude",
    transform: "occlude",
    main: 2,
    slider: (sides) => ({ high: longest(sides) }),
    start: (sides) => [0.5, 0.5, Math.max(1, Math.round(shortest(sides) / 4)), 0],
  },
];

const longest = ({ height, width }: Sides): number => Math.max(height, width);
const shortest = ({ height, width }: Sides): number => Math.min(height, width);

/** Those that a picture of so many channels can have: saturation is of colours. */
export const offered = (
  channels: number,
): readonly (Manipulation & { readonly kind: Transform })[] =>
  MANIPULATIONS.flatMap((one) => {
    const kind = TRANSFORMS.find(({ name }) => name === one.transform);
    return kind !== undefined && fits(kind.counts, channels) ? [{ ...one, kind }] : [];
  });

export const manipulationOf = ({ transform }: Edit): Manipulation | undefined =>
  MANIPULATIONS.find((one) => one.transform === transform);

/** An edit's parameters with their numbers among all: that of the row first, undefined where there is none. */
export function numbersOf(
  parameters: readonly Parameter[],
  one: Manipulation | undefined,
  sides: Sides,
): readonly (readonly [number, Parameter])[] {
  const main = one?.main ?? 0;
  const all = parameters.map((parameter, k) => [k, parameter] as const);
  const first = all[main];
  if (first === undefined) return [];
  const [k, parameter] = first;
  return [[k, { ...parameter, ...one?.slider?.(sides) }], ...all.filter(([at]) => at !== main)];
}
