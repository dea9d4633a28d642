// Manipulations of a picture: bends under the usual image-editing names, with slider ranges for values from 0 to 1.

import type { Edit, Parameter, Transform } from "../../../../plan/edits.ts";
import { acceptsChannels, TRANSFORMS } from "../edit_operations.ts";

interface MapSize {
  readonly height: number;
  readonly width: number;
}

export interface Manipulation {
  readonly label: string;
  readonly transform: string;
  /** Index of the parameter in the row; 0 by default. */
  readonly mainParameter?: number;
  /** The slider's limits and step. */
  readonly sliderLimits?: (sides: MapSize) => Partial<Pick<Parameter, "low" | "high" | "step">>;
  /** Initial parameters, if they differ from the transform's defaults. */
  readonly initialParameters?: (sides: MapSize) => readonly number[];
}

export const MANIPULATIONS: readonly Manipulation[] = [
  { label: "Blur", transform: "blur" },
  { label: "Sharpen", transform: "sharpen" },
  { label: "Edges", transform: "edges" },
  { label: "Threshold", transform: "threshold", sliderLimits: () => ({ low: 0, high: 1 }) },
  { label: "Invert", transform: "invert" },
  {
    label: "Brightness",
    transform: "multiply",
    sliderLimits: () => ({ low: 0, high: 3 }),
    initialParameters: () => [1.3],
  },
  { label: "Contrast", transform: "contrast", sliderLimits: () => ({ high: 3 }) },
  { label: "Saturation", transform: "saturation", sliderLimits: () => ({ high: 3 }) },
  { label: "Rotate", transform: "rotate", initialParameters: () => [15] },
  { label: "Flip left–right", transform: "flip_h" },
  { label: "Flip up–down", transform: "flip_v" },
  { label: "Zoom", transform: "scale" },
  {
    label: "Pixelate",
    transform: "pixelate",
    sliderLimits: (sides) => ({
      high: Math.min(64, Math.max(2, Math.ceil(longestSide(sides) / 2))),
    }),
    initialParameters: (sides) => [Math.min(16, Math.max(2, Math.round(shortestSide(sides) / 14)))],
  },
  {
    label: "Noise",
    transform: "noise",
    sliderLimits: () => ({ high: 1, step: 0.01 }),
    initialParameters: () => [0.1, 0],
  },
  { label: "Salt and pepper", transform: "salt_and_pepper" },
  {
    label: "Occlude",
    transform: "occlude",
    mainParameter: 2,
    sliderLimits: (sides) => ({ high: longestSide(sides) }),
    initialParameters: (sides) => [0.5, 0.5, Math.max(1, Math.round(shortestSide(sides) / 4)), 0],
  },
];

const longestSide = ({ height, width }: MapSize): number => Math.max(height, width);
const shortestSide = ({ height, width }: MapSize): number => Math.min(height, width);

/** The manipulations for a picture with this number of channels: saturation needs colours. */
export const availableManipulations = (
  channels: number,
): readonly (Manipulation & { readonly kind: Transform })[] =>
  MANIPULATIONS.flatMap((one) => {
    const kind = TRANSFORMS.find(({ name }) => name === one.transform);
    return kind !== undefined && acceptsChannels(kind.counts, channels) ? [{ ...one, kind }] : [];
  });

export const manipulationOf = ({ transform }: Edit): Manipulation | undefined =>
  MANIPULATIONS.find((one) => one.transform === transform);

/** An edit's parameters with their indices, the row's main parameter first; empty if there are none. */
export function orderParameters(
  parameters: readonly Parameter[],
  manipulation: Manipulation | undefined,
  mapSize: MapSize,
): readonly (readonly [number, Parameter])[] {
  const main = manipulation?.mainParameter ?? 0;
  const all = parameters.map((parameter, k) => [k, parameter] as const);
  const first = all[main];
  if (first === undefined) return [];
  const [k, parameter] = first;
  return [
    [k, { ...parameter, ...manipulation?.sliderLimits?.(mapSize) }],
    ...all.filter(([at]) => at !== main),
  ];
}
