// Numbers of a value's channels: two reductions on the device, a few texels back, the rest in float64 here.
// A device that draws only 16-bit floats could not even count to a map's pixels: all of it is done here.
import type { Value } from "../plan/schema.ts";
import { groupsOf, type SlotWords, stripsOf } from "../plan/uniforms.ts";
import { type Reduced, reducedHere } from "../statistics/summary.ts";
import type { GlDevice } from "./device.ts";
import { DEVIATIONS_SLOTS, MOMENTS_SLOTS, PARTIAL_SUMS_SLOTS } from "./kernels.ts";
import type { OwnPrograms } from "./lazy_programs.ts";
import type { PlanObjects } from "./objects.ts";
import {
  drawPasses,
  freeSurface,
  layersOf,
  type Surface,
  surfaceOf,
  whole,
  writePasses,
} from "./passes.ts";
import type { Linked } from "./programs.ts";

/** Reduces every channel of one image; what is returned reads that, at once or when the device has done it. */
export type Reduce = (value: Value, image: number, objects: PlanObjects) => () => Reduced[];

/** `programs`: those of REDUCING, or of RESHAPED_REDUCING. */
export async function reducer(device: GlDevice, programs: OwnPrograms): Promise<Reduce> {
  const { generation } = device;
  if (device.resources.drawn === "rgba16f") {
    return (value, image, objects) => {
      device.check(generation);
      objects.draw(value.read.step);
      const found = reducedHere(objects.read(value.read.step), value.nchw, image);
      return () => found;
    };
  }
  const linked = await programs.ready();
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
  linked: readonly Linked[],
): () => Reduced[] {
  const [moments, partialMoments, deviations, partialSums] = linked as [
    Linked,
    Linked,
    Linked,
    Linked,
  ];
  const { resources } = device;
  const [, c, h, w] = value.nchw;
  const groups = groupsOf(value);
  const { strips, lines } = stripsOf(value);
  const total = groups * strips;
  const [scratch, first, second] = [
    surfaceOf(device, total),
    surfaceOf(device, groups),
    surfaceOf(device, groups),
  ];
  const buffer = resources.buffer(0, "DYNAMIC_DRAW");
  const reduce = (
    by: Linked,
    combining: Linked,
    result: Surface,
    inputs: WebGLTexture[],
    own: (width: number) => SlotWords,
  ) => {
    const into = strips > 1 ? scratch : result;
    const numbers = { nchw: [value.nchw], words: value.words, own: own(into.width) };
    const passes = [{ linked: by, inputs, target: into, area: whole(into), numbers }];
    if (strips === 1) return passes;
    const adding = PARTIAL_SUMS_SLOTS.fill({
      each: strips,
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
        area: whole(result),
        numbers: { own: adding },
      },
    ];
  };
  const walk = { work: [image, strips, lines, total], pixels: h * w } as const;
  const passes = [
    ...reduce(moments, partialMoments, first, [texture], (width) =>
      MOMENTS_SLOTS.fill({ ...walk, width }),
    ),
    ...reduce(deviations, partialSums, second, [texture, first.texture], (width) =>
      DEVIATIONS_SLOTS.fill({ ...walk, width, width_before: first.width }),
    ),
  ];
  writePasses(device, buffer, passes);
  drawPasses(device, buffer, passes);
  const read = layersOf(device, first, second);
  for (const target of [scratch, first, second]) freeSurface(device, target);
  resources.freeBuffer(buffer);
  return () => {
    const [low, high, sum, count, squares, zeros, nan, inf] = read();
    const at = (data: Float32Array | undefined, k: number) => data?.[k] ?? Number.NaN;
    return Array.from({ length: c }, (_, k) => ({
      pixels: h * w,
      low: at(low, k),
      high: at(high, k),
      sum: at(sum, k),
      count: at(count, k),
      squares: at(squares, k),
      zeros: at(zeros, k),
      nan: at(nan, k),
      inf: at(inf, k),
    }));
  };
}
