// Histograms: the GPU counts the values at or above each edge; bins are differences of these counts.
import type { Value } from "../plan/schema.ts";
import { channelGroupCount, splitValueIntoStrips } from "../plan/uniforms.ts";
import { countAboveEdges } from "../statistics/histogram_bins.ts";
import type { GlDevice } from "./gl_device.ts";
import { readWhenIdle } from "./gpu_clock.ts";
import { COUNTS_SLOTS, PARTIAL_SUMS_SLOTS } from "./kernels.ts";
import type { LazyPrograms } from "./lazy_programs.ts";
import type { PlanObjects } from "./plan_objects.ts";
import type { LinkedProgram } from "./program_cache.ts";
import {
  createSurfaceFor,
  drawPasses,
  freeSurface,
  fullViewport,
  readSurfaceLayers,
  type UtilityPass,
  uploadPassUniforms,
} from "./utility_passes.ts";

/** Edges per fragment: 4 targets of 4 lanes. */
const EDGES_PER_FRAGMENT = 16;
/** Fragments that are added up on the GPU; their counts stay far below 2^24, up to which float32 is exact. */
const FRAGMENTS_PER_SUM = 256;

/** Count the values of an image at or above each edge, of one channel or of all; resolves when the GPU has finished. */
type BinEdgeCounter = (
  value: Value,
  image: number,
  channel: number | undefined,
  objects: PlanObjects,
  edges: Float32Array,
) => Promise<readonly number[]>;

/** `programs`: either HISTOGRAM_PROGRAMS or RESHAPED_HISTOGRAM_PROGRAMS. */
export async function createBinEdgeCounter(
  device: GlDevice,
  programs: LazyPrograms,
): Promise<BinEdgeCounter> {
  const { generation } = device;
  if (device.resources.renderFormat === "rgba16f") {
    return async (value, image, channel, objects, edges) => {
      device.check(generation);
      objects.draw(value.readback.draw_pass);
      const [, c, h, w] = value.nchw;
      const [first, channels] = channel === undefined ? [0, c] : [channel, 1];
      const from = (image * c + first) * h * w;
      return countAboveEdges(
        objects.read(value.readback.draw_pass).subarray(from, from + channels * h * w),
        edges,
      );
    };
  }
  const linked = await programs.getLinkedPrograms();
  return (value, image, channel, objects, edges) => {
    device.check(generation);
    if (edges.length === 0) return Promise.resolve([]);
    const [counts, partialSums] = linked as [LinkedProgram, LinkedProgram];
    const texture = objects.texture(value.texture);
    const groups = channel === undefined ? channelGroupCount(value) : 1;
    const { stripCount, linesPerStrip } = splitValueIntoStrips(value);
    const parts = groups * stripCount;
    const each = Math.min(parts, FRAGMENTS_PER_SUM);
    const sums = Math.ceil(parts / each);
    const blocks = Math.ceil(edges.length / EDGES_PER_FRAGMENT);
    const total = blocks * sums * each;
    const { resources } = device;
    const size = { width: blocks * 4, height: 1, layers: 1 };
    const list = resources.createTexture(size, "rgba32f");
    const padded = new Float32Array(blocks * EDGES_PER_FRAGMENT);
    padded.set(edges);
    for (const _ of resources.upload(list, size, padded));
    const [scratch, result] = [
      createSurfaceFor(device, total),
      createSurfaceFor(device, blocks * sums),
    ];
    const buffer = resources.createBuffer(0, "DYNAMIC_DRAW");
    const counting = COUNTS_SLOTS.fill({
      work: [image, stripCount, linesPerStrip, total],
      width: scratch.width,
      first_group: channel === undefined ? 0 : channel >> 2,
      channel: channel ?? -1,
      fragments: sums * each,
      filled: parts,
    });
    const adding = PARTIAL_SUMS_SLOTS.fill({
      each,
      texels: total,
      results: blocks * sums,
      width: result.width,
      width_before: scratch.width,
    });
    const passes: UtilityPass[] = [
      {
        linked: counts,
        inputs: [texture, list],
        target: scratch,
        viewport: fullViewport(scratch),
        uniforms: {
          displayShapes: [value.nchw],
          inputLayouts: value.layout_words,
          slotWords: counting,
        },
      },
      {
        linked: partialSums,
        inputs: [scratch.texture],
        target: result,
        viewport: fullViewport(result),
        uniforms: { slotWords: adding },
      },
    ];
    uploadPassUniforms(device, buffer, passes);
    drawPasses(device, buffer, passes);
    const readLayers = readSurfaceLayers(device, result);
    for (const target of [scratch, result]) freeSurface(device, target);
    resources.freeTexture(list);
    resources.freeBuffer(buffer);
    const read = (): number[] => {
      const layers = readLayers();
      return Array.from(edges, (_, k) => {
        const [block, at] = [Math.floor(k / EDGES_PER_FRAGMENT), k % EDGES_PER_FRAGMENT];
        const lanes = layers[at >> 2] ?? padded;
        let sum = 0;
        for (let s = 0; s < sums; s++) sum += lanes[(block * sums + s) * 4 + (at & 3)] ?? 0;
        return sum;
      });
    };
    const counted = readWhenIdle(device, read);
    counted.catch(() => undefined); // if the run fails, the count is requested again
    return counted;
  };
}
