// Channel statistics: two reductions on the GPU, a readback of a few texels, and the rest in float64 on the CPU. A
// device that only renders 16-bit floats could not even count a map's pixels, so everything is computed on the CPU.
import type { Value } from "../plan/schema.ts";
import { channelGroupCount, type SlotWords, splitValueIntoStrips } from "../plan/uniforms.ts";
import { type ChannelReduction, reduceChannelsOnCpu } from "../statistics/summary.ts";
import type { GlDevice } from "./gl_device.ts";
import { DEVIATIONS_SLOTS, MOMENTS_SLOTS, PARTIAL_SUMS_SLOTS } from "./kernels.ts";
import type { LazyPrograms } from "./lazy_programs.ts";
import type { PlanObjects } from "./plan_objects.ts";
import type { LinkedProgram } from "./program_cache.ts";
import {
  createSurfaceFor,
  drawPasses,
  freeSurface,
  fullViewport,
  readSurfaceLayers,
  type Surface,
  uploadPassUniforms,
} from "./utility_passes.ts";

/** Reduce every channel of one image; the returned function reads the result, at once or when the GPU has finished. */
export type ChannelReducer = (
  value: Value,
  image: number,
  objects: PlanObjects,
) => () => ChannelReduction[];

/** `programs`: either REDUCTION_PROGRAMS or RESHAPED_REDUCTION_PROGRAMS. */
export async function createChannelReducer(
  device: GlDevice,
  programs: LazyPrograms,
): Promise<ChannelReducer> {
  const { generation } = device;
  if (device.resources.renderFormat === "rgba16f") {
    return (value, image, objects) => {
      device.check(generation);
      objects.draw(value.readback.draw_pass);
      const found = reduceChannelsOnCpu(objects.read(value.readback.draw_pass), value.nchw, image);
      return () => found;
    };
  }
  const linked = await programs.getLinkedPrograms();
  return (value, image, objects) => {
    device.check(generation);
    return reduceChannels(device, value, image, objects.texture(value.texture), linked);
  };
}

function reduceChannels(
  device: GlDevice,
  value: Value,
  image: number,
  texture: WebGLTexture,
  linked: readonly LinkedProgram[],
): () => ChannelReduction[] {
  const [moments, partialMoments, deviations, partialSums] = linked as [
    LinkedProgram,
    LinkedProgram,
    LinkedProgram,
    LinkedProgram,
  ];
  const { resources } = device;
  const [, c, h, w] = value.nchw;
  const groups = channelGroupCount(value);
  const { stripCount, linesPerStrip } = splitValueIntoStrips(value);
  const total = groups * stripCount;
  const [scratch, first, second] = [
    createSurfaceFor(device, total),
    createSurfaceFor(device, groups),
    createSurfaceFor(device, groups),
  ];
  const buffer = resources.createBuffer(0, "DYNAMIC_DRAW");
  const reduce = (
    by: LinkedProgram,
    combining: LinkedProgram,
    result: Surface,
    inputs: WebGLTexture[],
    own: (width: number) => SlotWords,
  ) => {
    const into = stripCount > 1 ? scratch : result;
    const uniforms = {
      displayShapes: [value.nchw],
      inputLayouts: value.layout_words,
      slotWords: own(into.width),
    };
    const passes = [{ linked: by, inputs, target: into, viewport: fullViewport(into), uniforms }];
    if (stripCount === 1) return passes;
    const adding = PARTIAL_SUMS_SLOTS.fill({
      each: stripCount,
      texels: total,
      results: groups,
      width: result.width,
      width_before: scratch.width,
    });
    return [
      ...passes,
      {
        linked: combining,
        inputs: [scratch.texture],
        target: result,
        viewport: fullViewport(result),
        uniforms: { slotWords: adding },
      },
    ];
  };
  const walk = { work: [image, stripCount, linesPerStrip, total], pixels: h * w } as const;
  const passes = [
    ...reduce(moments, partialMoments, first, [texture], (width) =>
      MOMENTS_SLOTS.fill({ ...walk, width }),
    ),
    ...reduce(deviations, partialSums, second, [texture, first.texture], (width) =>
      DEVIATIONS_SLOTS.fill({ ...walk, width, width_before: first.width }),
    ),
  ];
  uploadPassUniforms(device, buffer, passes);
  drawPasses(device, buffer, passes);
  const read = readSurfaceLayers(device, first, second);
  for (const target of [scratch, first, second]) freeSurface(device, target);
  resources.freeBuffer(buffer);
  return () => {
    const [low, high, sum, count, squares, zeros, nan, inf] = read();
    const at = (data: Float32Array | undefined, k: number) => data?.[k] ?? Number.NaN;
    return Array.from({ length: c }, (_, k) => ({
      pixelCount: h * w,
      low: at(low, k),
      high: at(high, k),
      scaledSum: at(sum, k),
      finiteCount: at(count, k),
      scaledSquaredDeviations: at(squares, k),
      zeros: at(zeros, k),
      nan: at(nan, k),
      inf: at(inf, k),
    }));
  };
}
