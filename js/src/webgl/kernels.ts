// The display's and the statistics' own programs, put together as codegen/glsl.py does for a Plan's.
import prelude from "../../../src/nbglcnn/ops/shaders/prelude.glsl";
import { uniformSlots } from "../plan/uniform_slots.ts";
import classes from "./shaders/classes.glsl";
import colours from "./shaders/colormap.glsl";
import combine from "./shaders/combine.glsl";
import common from "./shaders/common.glsl";
import counts from "./shaders/counts.glsl";
import curves from "./shaders/curves.glsl";
import deviations from "./shaders/deviations.glsl";
import display from "./shaders/display.glsl";
import reading from "./shaders/element_reads.glsl";
import index from "./shaders/fragment_index.glsl";
import image from "./shaders/image.glsl";
import minMax from "./shaders/min_max.glsl";
import partialSums from "./shaders/partial_sums.glsl";
import picture from "./shaders/picture_vertex.glsl";
import reduction from "./shaders/reduction.glsl";
import targets from "./shaders/render_targets.glsl";

/** The names of a shader's numbers: a table of slots. */
interface SlotMacros {
  readonly macros: string;
}

export function createKernel(
  name: string,
  samplers: readonly string[],
  { macros }: SlotMacros,
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
const RESHAPED_DEFINES = { RESHAPED: 1, WRAPPED: 1 };
const VALUE_SAMPLERS = ["x0", "x1", "x2", "x3"];

/** Ranges for drawing: least and greatest of each channel, of four values in one pass. */
export const MIN_MAX_SLOTS = uniformSlots({
  /** Here and below: image, strips of a map, lines of a strip, number of fragments. */
  work: "ivec4[4]",
  /** First row of a value's partial results, and fragments in a row. */
  rows: "ivec2[4]",
});
const minMaxKernel = (name: string, constants: Readonly<Record<string, number>>) =>
  createKernel(
    name,
    VALUE_SAMPLERS,
    MIN_MAX_SLOTS,
    { TARGETS: 2, SOURCES: 4, ...constants },
    targets,
    reduction,
    minMax,
  );
export const MIN_MAX = minMaxKernel("min max", {});
export const RESHAPED_MIN_MAX = minMaxKernel("reshaped min max", RESHAPED_DEFINES);

export const COMBINE_SLOTS = uniformSlots({
  batch: "int",
  /** Of the partial results. */
  width: "int",
  /** How much of the result is the new one's, where `before` has an older one. */
  share: "float",
});
export const COMBINE = createKernel(
  "combine",
  ["a", "list", "before"],
  COMBINE_SLOTS,
  { TARGETS: 2 },
  targets,
  combine,
);

/** One picture of a value: a canvas pixel is a fragment, the picture is the viewport. */
const PICTURE_SLOTS = {
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
export const MAPS_SLOTS = uniformSlots(PICTURE_SLOTS);
export const IMAGE_SLOTS = uniformSlots({ ...PICTURE_SLOTS, channels: "int" });
export const CURVES_SLOTS = uniformSlots({
  ...PICTURE_SLOTS,
  /** Values of the curve, and whether they lie below each other: 1. */
  values: "int",
  vertical: "int",
  /** The line's half width in hundredths of a pixel. */
  thickness: "int",
});
export const CLASSES_SLOTS = uniformSlots({
  ...PICTURE_SLOTS,
  channels: "int",
  /** Colours of the classes, and their layer in `maps`. */
  colours: "int",
  colours_layer: "int",
});

/** The vertex shader takes the range that a picture's maps share, the fragment shader does all else. */
function pictureKernel(
  drawn: string,
  named: SlotMacros,
  constants: Readonly<Record<string, number>>,
) {
  const samplers = ["x0", "table", "maps", "ranges"];
  return {
    ...createKernel("display", samplers, named, constants, display, reading, drawn),
    vertex: createKernel("display", ["ranges"], named, { VERTEX: 1 }, display, picture).source,
  };
}
/** One read a pixel; means of several; those with a range for each channel; an image; curves; the largest channel. */
export const DISPLAY_PROGRAMS = {
  plain: pictureKernel(colours, MAPS_SLOTS, { PLAIN: 1 }),
  means: pictureKernel(colours, MAPS_SLOTS, {}),
  each: pictureKernel(colours, MAPS_SLOTS, { BY_CHANNEL: 1 }),
  image: pictureKernel(image, IMAGE_SLOTS, {}),
  curves: pictureKernel(curves, CURVES_SLOTS, {}),
  classes: pictureKernel(classes, CLASSES_SLOTS, {}),
  "reshaped means": pictureKernel(colours, MAPS_SLOTS, RESHAPED_DEFINES),
  "reshaped each": pictureKernel(colours, MAPS_SLOTS, { BY_CHANNEL: 1, ...RESHAPED_DEFINES }),
  "reshaped image": pictureKernel(image, IMAGE_SLOTS, RESHAPED_DEFINES),
  "reshaped curves": pictureKernel(curves, CURVES_SLOTS, RESHAPED_DEFINES),
  "reshaped classes": pictureKernel(classes, CLASSES_SLOTS, RESHAPED_DEFINES),
} as const;

/** `width`, here and below: of what is written. */
export const PARTIAL_SUMS_SLOTS = uniformSlots({
  /** Texels of `a` that make one of the result, how many there are, and results. */
  each: "int",
  texels: "int",
  results: "int",
  width: "int",
  /** Of `a`. */
  width_before: "int",
});
const partialSumsKernel = (name: string, sums: 0 | 1) =>
  createKernel(
    name,
    ["a"],
    PARTIAL_SUMS_SLOTS,
    { TARGETS: 4, SUMS: sums },
    targets,
    index,
    partialSums,
  );
const PARTIAL_MOMENTS = partialSumsKernel("partial moments", 0);
const PARTIAL_SUMS = partialSumsKernel("partial sums", 1);

/** Statistics: two reductions, so that deviations are taken from the mean. */
export const MOMENTS_SLOTS = uniformSlots({ work: "ivec4", width: "int", pixels: "float" });
export const DEVIATIONS_SLOTS = uniformSlots({
  work: "ivec4",
  width: "int",
  /** Of `a`: the moments. */
  width_before: "int",
  pixels: "float",
});
const reductionKernels = (constants: Readonly<Record<string, number>>) => [
  createKernel(
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
  createKernel(
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
export const REDUCTION_PROGRAMS = reductionKernels({});
export const RESHAPED_REDUCTION_PROGRAMS = reductionKernels(RESHAPED_DEFINES);

/** Histograms. */
export const COUNTS_SLOTS = uniformSlots({
  work: "ivec4",
  width: "int",
  /** First channel group; the one channel, or -1 for all. */
  first_group: "int",
  channel: "int",
  /** Fragments for 16 edges, and how many of them have a strip. */
  fragments: "int",
  filled: "int",
});
const countKernels = (constants: Readonly<Record<string, number>>) => [
  createKernel(
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
export const COUNT_PROGRAMS = countKernels({});
export const RESHAPED_COUNT_PROGRAMS = countKernels(RESHAPED_DEFINES);
