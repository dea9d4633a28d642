// The display's and the statistics' own programs, put together as lowering/glsl.py does for a Plan's.
import prelude from "../../../src/nbglcnn/ops/shaders/prelude.glsl";
import classes from "./shaders/classes.glsl";
import colours from "./shaders/colours.glsl";
import combine from "./shaders/combine.glsl";
import common from "./shaders/common.glsl";
import counts from "./shaders/counts.glsl";
import curves from "./shaders/curves.glsl";
import deviations from "./shaders/deviations.glsl";
import display from "./shaders/display.glsl";
import image from "./shaders/image.glsl";
import minMax from "./shaders/min_max.glsl";
import partialSums from "./shaders/partial_sums.glsl";
import picture from "./shaders/picture.glsl";
import reading from "./shaders/reading.glsl";
import reduction from "./shaders/reduction.glsl";
import targets from "./shaders/targets.glsl";

export function kernel(
  name: string,
  samplers: readonly string[],
  constants: Readonly<Record<string, number>>,
  ...parts: string[]
) {
  const source = [
    ...Object.entries(constants).map(([word, value]) => `#define ${word} ${value}`),
    prelude,
    ...samplers.map((sampler) => `uniform sampler2DArray ${sampler};`),
    common,
    ...parts,
  ].join("\n");
  return { name, source, samplers };
}

/** For values that are shown in another nchw than they lie in, or lie in strips. */
const RESHAPED = { RESHAPED: 1, WRAPPED: 1 };
const SOURCES = ["x0", "x1", "x2", "x3"];

/** Ranges for drawing: least and greatest of each channel. */
export const MIN_MAX = kernel(
  "min max",
  SOURCES,
  { TARGETS: 2, SOURCES: 4 },
  targets,
  reduction,
  minMax,
);
export const RESHAPED_MIN_MAX = kernel(
  "reshaped min max",
  SOURCES,
  { TARGETS: 2, SOURCES: 4, ...RESHAPED },
  targets,
  reduction,
  minMax,
);
export const COMBINE = kernel("combine", ["a", "list", "before"], { TARGETS: 2 }, targets, combine);
/** Pictures of one value: the vertex shader takes the range that they share, the fragment shader does all else. */
function pictures(drawn: string, constants: Readonly<Record<string, number>>) {
  const samplers = ["x0", "table", "maps", "ranges"];
  return {
    ...kernel("display", samplers, constants, display, reading, drawn),
    vertex: kernel("display", ["ranges"], { VERTEX: 1 }, display, picture).source,
  };
}
/** One read a pixel; means of several; those with a range for each channel; an image; curves; the largest channel. */
export const DISPLAY = {
  plain: pictures(colours, { PLAIN: 1 }),
  means: pictures(colours, {}),
  each: pictures(colours, { BY_CHANNEL: 1 }),
  image: pictures(image, {}),
  curves: pictures(curves, {}),
  classes: pictures(classes, {}),
  "reshaped means": pictures(colours, RESHAPED),
  "reshaped each": pictures(colours, { BY_CHANNEL: 1, ...RESHAPED }),
  "reshaped image": pictures(image, RESHAPED),
  "reshaped curves": pictures(curves, RESHAPED),
  "reshaped classes": pictures(classes, RESHAPED),
} as const;

const PARTIAL_MOMENTS = kernel(
  "partial moments",
  ["a"],
  { TARGETS: 4, SUMS: 0 },
  targets,
  partialSums,
);
const PARTIAL_SUMS = kernel("partial sums", ["a"], { TARGETS: 4, SUMS: 1 }, targets, partialSums);

/** Statistics: two reductions, so that deviations are taken from the mean. */
const reducing = (constants: Readonly<Record<string, number>>) => [
  kernel("moments", ["x0"], { TARGETS: 4, ...constants }, targets, reduction, minMax),
  PARTIAL_MOMENTS,
  kernel("deviations", ["x0", "a"], { TARGETS: 4, ...constants }, targets, reduction, deviations),
  PARTIAL_SUMS,
];
export const REDUCING = reducing({});
export const RESHAPED_REDUCING = reducing(RESHAPED);

/** Histograms. */
const counting = (constants: Readonly<Record<string, number>>) => [
  kernel("counts", ["x0", "edges"], { TARGETS: 4, ...constants }, targets, reduction, counts),
  PARTIAL_SUMS,
];
export const COUNTING = counting({});
export const RESHAPED_COUNTING = counting(RESHAPED);
