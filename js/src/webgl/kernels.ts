// The display's and the statistics' own programs, put together as codegen/glsl.py does for a Plan's.
import prelude from "../../../src/nbglcnn/ops/shaders/prelude.glsl";
import { slots } from "../plan/slots.ts";
import classes from "./shaders/classes.glsl";
import colours from "./shaders/colours.glsl";
import combine from "./shaders/combine.glsl";
import common from "./shaders/common.glsl";
import counts from "./shaders/counts.glsl";
import curves from "./shaders/curves.glsl";
import deviations from "./shaders/deviations.glsl";
import display from "./shaders/display.glsl";
import image from "./shaders/image.glsl";
import index from "./shaders/index.glsl";
import minMax from "./shaders/min_max.glsl";
import partialSums from "./shaders/partial_sums.glsl";
import picture from "./shaders/picture.glsl";
import reading from "./shaders/reading.glsl";
import reduction from "./shaders/reduction.glsl";
import targets from "./shaders/targets.glsl";

/** The names of a shader's numbers: a table of slots. */
interface Named {
  readonly macros: string;
}

export function kernel(
  name: string,
  samplers: readonly string[],
  { macros }: Named,
  constants: Readonly<Record<string, number>>,
  ...parts: string[]
) {
  const source = [
    ...Object.entries(constants).map(([word, value]) => `#define ${word} ${value}`),
    prelude,
    macros,
    ...samplers.map((sampler) => `uniform sampler2DArray ${sampler};`),
    common,
    ...parts,
  ].join("\n");
  return { name, source, samplers };
}

/** For values that are shown in another nchw than they lie in, or lie in strips. */
const RESHAPED = { RESHAPED: 1, WRAPPED: 1 };
const SOURCES = ["x0", "x1", "x2", "x3"];

/** Ranges for drawing: least and greatest of each channel, of four values in one pass. */
export const MIN_MAX_SLOTS = slots({
  /** Here and below: image, strips of a map, lines of a strip, number of fragments. */
  work: "ivec4[4]",
  /** First row of a value's partial results, and fragments in a row. */
  rows: "ivec2[4]",
});
const minMaxOf = (name: string, constants: Readonly<Record<string, number>>) =>
  kernel(
    name,
    SOURCES,
    MIN_MAX_SLOTS,
    { TARGETS: 2, SOURCES: 4, ...constants },
    targets,
    reduction,
    minMax,
  );
export const MIN_MAX = minMaxOf("min max", {});
export const RESHAPED_MIN_MAX = minMaxOf("reshaped min max", RESHAPED);

export const COMBINE_SLOTS = slots({
  batch: "int",
  /** Of the partial results. */
  width: "int",
  /** How much of the result is the new one's, where `before` has an older one. */
  share: "float",
});
export const COMBINE = kernel(
  "combine",
  ["a", "list", "before"],
  COMBINE_SLOTS,
  { TARGETS: 2 },
  targets,
  combine,
);

/** One picture of a value: a canvas pixel is a fragment, the picture is the viewport. */
const PICTURE = {
  /** Left and top of the picture in the canvas, where rows may go up or down from. */
  origin: "ivec2",
  /** Its corner in `table`. */
  corner: "ivec2",
  /** Canvas pixels of a map with the gap beside it, and without. */
  cell: "ivec2",
  size: "ivec2",
  /** Layers of the colour map and of the marks in `maps`, and of the picture in `table`. */
  colormap: "int",
  marks: "int",
  table_layer: "int",
  /** Reads a canvas pixel along each axis. */
  taps: "int",
  /** 0 of each channel, 1 of the layer, 2 fixed. */
  range: "int",
  /** 0 signed, 1 minimum to maximum, 2 symmetric, 3 with zero in it. */
  scaling: "int",
  /** The value's first texel in `ranges`, and how wide that is; column and row of what its maps share there. */
  first: "int",
  columns: "int",
  shared: "ivec2",
  /** 1 over `cell`, and over the sides of `table`. */
  over_cell: "vec2",
  over_table: "vec2",
  /** Map pixels a canvas pixel. */
  step: "vec2",
  /** Lowest and highest value of a fixed range. */
  fixed: "vec2",
  /** 1 over the value's phases and blocks, and over the sides of its texture. */
  over_phases: "vec2",
  over_blocks: "vec2",
  over_texture: "vec2",
  /** What is less than the first or more than the second is clipped by an image's range. */
  clipped: "vec2",
} as const;
export const MAPS_SLOTS = slots(PICTURE);
export const IMAGE_SLOTS = slots({ ...PICTURE, channels: "int" });
export const CURVES_SLOTS = slots({
  ...PICTURE,
  /** Values of the curve, and whether they lie below each other: 1. */
  values: "int",
  vertical: "int",
  /** The line's half width in hundredths of a pixel. */
  thickness: "int",
});
export const CLASSES_SLOTS = slots({
  ...PICTURE,
  channels: "int",
  /** Colours of the classes, and their layer in `maps`. */
  colours: "int",
  colours_layer: "int",
});

/** The vertex shader takes the range that a picture's maps share, the fragment shader does all else. */
function pictures(drawn: string, named: Named, constants: Readonly<Record<string, number>>) {
  const samplers = ["x0", "table", "maps", "ranges"];
  return {
    ...kernel("display", samplers, named, constants, display, reading, drawn),
    vertex: kernel("display", ["ranges"], named, { VERTEX: 1 }, display, picture).source,
  };
}
/** One read a pixel; means of several; those with a range for each channel; an image; curves; the largest channel. */
export const DISPLAY = {
  plain: pictures(colours, MAPS_SLOTS, { PLAIN: 1 }),
  means: pictures(colours, MAPS_SLOTS, {}),
  each: pictures(colours, MAPS_SLOTS, { BY_CHANNEL: 1 }),
  image: pictures(image, IMAGE_SLOTS, {}),
  curves: pictures(curves, CURVES_SLOTS, {}),
  classes: pictures(classes, CLASSES_SLOTS, {}),
  "reshaped means": pictures(colours, MAPS_SLOTS, RESHAPED),
  "reshaped each": pictures(colours, MAPS_SLOTS, { BY_CHANNEL: 1, ...RESHAPED }),
  "reshaped image": pictures(image, IMAGE_SLOTS, RESHAPED),
  "reshaped curves": pictures(curves, CURVES_SLOTS, RESHAPED),
  "reshaped classes": pictures(classes, CLASSES_SLOTS, RESHAPED),
} as const;

/** `width`, here and below: of what is written. */
export const PARTIAL_SUMS_SLOTS = slots({
  /** Texels of `a` that make one of the result, how many there are, and results. */
  each: "int",
  texels: "int",
  results: "int",
  width: "int",
  /** Of `a`. */
  width_before: "int",
});
const partialSumsOf = (name: string, sums: 0 | 1) =>
  kernel(name, ["a"], PARTIAL_SUMS_SLOTS, { TARGETS: 4, SUMS: sums }, targets, index, partialSums);
const PARTIAL_MOMENTS = partialSumsOf("partial moments", 0);
const PARTIAL_SUMS = partialSumsOf("partial sums", 1);

/** Statistics: two reductions, so that deviations are taken from the mean. */
export const MOMENTS_SLOTS = slots({ work: "ivec4", width: "int", pixels: "float" });
export const DEVIATIONS_SLOTS = slots({
  work: "ivec4",
  width: "int",
  /** Of `a`: the moments. */
  width_before: "int",
  pixels: "float",
});
const reducing = (constants: Readonly<Record<string, number>>) => [
  kernel(
    "moments",
    ["x0"],
    MOMENTS_SLOTS,
    { TARGETS: 4, ...constants },
    targets,
    index,
    reduction,
    minMax,
  ),
  PARTIAL_MOMENTS,
  kernel(
    "deviations",
    ["x0", "a"],
    DEVIATIONS_SLOTS,
    { TARGETS: 4, ...constants },
    targets,
    index,
    reduction,
    deviations,
  ),
  PARTIAL_SUMS,
];
export const REDUCING = reducing({});
export const RESHAPED_REDUCING = reducing(RESHAPED);

/** Histograms. */
export const COUNTS_SLOTS = slots({
  work: "ivec4",
  width: "int",
  /** First channel group; the one channel, or -1 for all. */
  first_group: "int",
  channel: "int",
  /** Fragments for 16 edges, and how many of them have a strip. */
  fragments: "int",
  filled: "int",
});
const counting = (constants: Readonly<Record<string, number>>) => [
  kernel(
    "counts",
    ["x0", "edges"],
    COUNTS_SLOTS,
    { TARGETS: 4, ...constants },
    targets,
    index,
    reduction,
    counts,
  ),
  PARTIAL_SUMS,
];
export const COUNTING = counting({});
export const RESHAPED_COUNTING = counting(RESHAPED);
