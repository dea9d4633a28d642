// The display's and the statistics' own programs, put together as lowering/glsl.py does for a Plan's.
import prelude from "../../../src/nbglcnn/shaders/prelude.glsl";
import colours from "./colours.glsl";
import common from "./common.glsl";
import counts from "./counts.glsl";
import display from "./display.glsl";
import extent from "./extent.glsl";
import fold from "./fold.glsl";
import join from "./join.glsl";
import picture from "./picture.glsl";
import spread from "./spread.glsl";
import targets from "./targets.glsl";
import walk from "./walk.glsl";

function kernel(
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

/** For values that are shown in another frame than they lie in, or lie in strips. */
const REFRAMED = { REFRAMED: 1, WRAPPED: 1 };
const SOURCES = ["x0", "x1", "x2", "x3"];

/** Ranges for drawing: least and greatest of each channel. */
export const EXTENT = kernel("extent", SOURCES, { TARGETS: 2, SOURCES: 4 }, targets, walk, extent);
export const REFRAMED_EXTENT = kernel(
  "reframed extent",
  SOURCES,
  { TARGETS: 2, SOURCES: 4, ...REFRAMED },
  targets,
  walk,
  extent,
);
export const JOIN = kernel("join", ["a", "list"], { TARGETS: 2 }, targets, join);
/** Maps of one value: the vertex shader takes the range that they share, the fragment shader does all else. */
function maps(constants: Readonly<Record<string, number>>) {
  return {
    ...kernel("display", ["x0", "table", "maps", "ranges"], constants, display, colours),
    vertex: kernel("display", ["ranges"], { VERTEX: 1 }, display, picture).source,
  };
}
/** One read a pixel; means of several; those with a range for each channel. */
export const DISPLAY = [maps({ PLAIN: 1 }), maps({}), maps({ BY_CHANNEL: 1 })];
/** Behind them: means of several, and those with a range for each channel. */
export const REFRAMED_DISPLAY = [maps(REFRAMED), maps({ BY_CHANNEL: 1, ...REFRAMED })];

const FOLD_MOMENTS = kernel("fold moments", ["a"], { TARGETS: 4, SUMS: 0 }, targets, fold);
const FOLD_SUMS = kernel("fold sums", ["a"], { TARGETS: 4, SUMS: 1 }, targets, fold);

/** Statistics: two walks, so that the spread is taken from the mean. */
const reducing = (constants: Readonly<Record<string, number>>) => [
  kernel("moments", ["x0"], { TARGETS: 4, ...constants }, targets, walk, extent),
  FOLD_MOMENTS,
  kernel("spread", ["x0", "a"], { TARGETS: 4, ...constants }, targets, walk, spread),
  FOLD_SUMS,
];
export const REDUCING = reducing({});
export const REFRAMED_REDUCING = reducing(REFRAMED);

/** Histograms. */
const counting = (constants: Readonly<Record<string, number>>) => [
  kernel("counts", ["x0", "edges"], { TARGETS: 4, ...constants }, targets, walk, counts),
  FOLD_SUMS,
];
export const COUNTING = counting({});
export const REFRAMED_COUNTING = counting(REFRAMED);
