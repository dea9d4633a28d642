// The programs of the display and the statistics, assembled as codegen/glsl.py does for a Plan.
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

/** Macros that name the slots of a shader's uniforms. */
interface SlotMacros {
  readonly macros: string;
}

export function createKernel(
  name: string,
  samplers: readonly string[],
  { macros }: SlotMacros,
  constants: Readonly<Record<string, number>>,
  ...glslSources: string[]
) {
  const source = [
    ...Object.entries(constants).map(([word, value]) => `#define ${word} ${value}`),
    prelude,
    macros,
    ...samplers.map((sampler) => `uniform sampler2DArray ${sampler};`),
    common,
    ...glslSources,
  ].join("\n");
  return { name, source, samplers };
}

/** For values whose displayed nchw differs from their stored shape, or that are stored in strips. */
const RESHAPED_DEFINES = { RESHAPED: 1, WRAPPED: 1 };
const VALUE_SAMPLERS = ["x0", "x1", "x2", "x3"];

/** Ranges for drawing: minimum and maximum of each channel, for four values per pass. */
export const MIN_MAX_SLOTS = uniformSlots({
  /** Here and below: image index, strips per map, lines per strip, number of fragments. */
  work: "ivec4[4]",
  /** First row of a value's partial results, and fragments per row. */
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
export const MIN_MAX_KERNEL = minMaxKernel("min max", {});
export const RESHAPED_MIN_MAX_KERNEL = minMaxKernel("reshaped min max", RESHAPED_DEFINES);

export const COMBINE_SLOTS = uniformSlots({
  batch: "int",
  /** Width of the partial results. */
  width: "int",
  /** The share of the new result; the rest is the older one in `before`. */
  share: "float",
});
export const COMBINE_KERNEL = createKernel(
  "combine",
  ["a", "list", "before"],
  COMBINE_SLOTS,
  { TARGETS: 2 },
  targets,
  combine,
);

/** One picture of a value: one fragment per canvas pixel, with the picture as viewport. */
const PICTURE_SLOTS = {
  /** Left and top of the picture in the canvas; rows may go up or down. */
  origin: "ivec2",
  /** The picture's corner in `table`. */
  corner: "ivec2",
  /** Canvas pixels of a map with the gap beside it, and without. */
  cell: "ivec2",
  size: "ivec2",
  /** Layers of the colour map and of the marks in `maps`, and of the picture in `table`. */
  colormap: "int",
  marks: "int",
  table_layer: "int",
  /** Reads per canvas pixel along each axis. */
  taps: "int",
  /** Range mode: 0 per channel, 1 per layer, 2 fixed. */
  range: "int",
  /** Scaling: 0 signed, 1 minimum to maximum, 2 symmetric, 3 including zero. */
  scaling: "int",
  /**
   * The value's first texel in `ranges`, and the width of `ranges`; column and row of the range that its maps share.
   */
  first: "int",
  columns: "int",
  shared: "ivec2",
  /** 1 / `cell`, and 1 / size of `table`. */
  over_cell: "vec2",
  over_table: "vec2",
  /** Map pixels per canvas pixel. */
  step: "vec2",
  /** Minimum and maximum of a fixed range. */
  fixed: "vec2",
  /** 1 / the value's phases and blocks, and 1 / size of its texture. */
  over_phases: "vec2",
  over_blocks: "vec2",
  over_texture: "vec2",
  /** An image's range clips values below the first or above the second. */
  clipped: "vec2",
} as const;
export const MAPS_SLOTS = uniformSlots(PICTURE_SLOTS);
export const IMAGE_SLOTS = uniformSlots({ ...PICTURE_SLOTS, channels: "int" });
export const CURVES_SLOTS = uniformSlots({
  ...PICTURE_SLOTS,
  /** The number of values of the curve; 1 if the signal is vertical. */
  values: "int",
  vertical: "int",
  /** Half the line width, in hundredths of a pixel. */
  thickness: "int",
});
export const CLASSES_SLOTS = uniformSlots({
  ...PICTURE_SLOTS,
  channels: "int",
  /** The number of class colours, and their layer in `maps`. */
  colours: "int",
  colours_layer: "int",
});

/** The vertex shader reads the range that a picture's maps share; the fragment shader does everything else. */
function pictureKernel(
  fragmentGlsl: string,
  slots: SlotMacros,
  constants: Readonly<Record<string, number>>,
) {
  const samplers = ["x0", "table", "maps", "ranges"];
  return {
    ...createKernel("display", samplers, slots, constants, display, reading, fragmentGlsl),
    vertexSource: createKernel("display", ["ranges"], slots, { VERTEX: 1 }, display, picture)
      .source,
  };
}
/**
 * plain: one read per pixel; means: the mean of several reads; each: means with a range per channel; image; curves;
 * classes: the largest channel.
 */
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

/** `width`, here and below: width of the output. */
export const PARTIAL_SUMS_SLOTS = uniformSlots({
  /** Texels of `a` per result, number of texels, and number of results. */
  each: "int",
  texels: "int",
  results: "int",
  width: "int",
  /** Width of `a`. */
  width_before: "int",
});
const partialSumsKernel = (name: string, addsAllTargets: 0 | 1) =>
  createKernel(
    name,
    ["a"],
    PARTIAL_SUMS_SLOTS,
    { TARGETS: 4, SUMS: addsAllTargets },
    targets,
    index,
    partialSums,
  );
const PARTIAL_MOMENTS_KERNEL = partialSumsKernel("partial moments", 0);
const PARTIAL_SUMS_KERNEL = partialSumsKernel("partial sums", 1);

/** Statistics in two reductions, so that deviations are computed from the mean. */
export const MOMENTS_SLOTS = uniformSlots({ work: "ivec4", width: "int", pixels: "float" });
export const DEVIATIONS_SLOTS = uniformSlots({
  work: "ivec4",
  width: "int",
  /** Width of `a`, the moments. */
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
  PARTIAL_MOMENTS_KERNEL,
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
  PARTIAL_SUMS_KERNEL,
];
export const REDUCTION_PROGRAMS = reductionKernels({});
export const RESHAPED_REDUCTION_PROGRAMS = reductionKernels(RESHAPED_DEFINES);

/** The uniforms of histograms. */
export const COUNTS_SLOTS = uniformSlots({
  work: "ivec4",
  width: "int",
  /** First channel group; the selected channel, or -1 for all. */
  first_group: "int",
  channel: "int",
  /** Fragments for 16 edges, and the number of fragments that have a strip. */
  fragments: "int",
  filled: "int",
});
const createHistogramKernels = (constants: Readonly<Record<string, number>>) => [
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
  PARTIAL_SUMS_KERNEL,
];
export const HISTOGRAM_PROGRAMS = createHistogramKernels({});
export const RESHAPED_HISTOGRAM_PROGRAMS = createHistogramKernels(RESHAPED_DEFINES);
