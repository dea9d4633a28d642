// Numbers of a value's channels: two walks on the device, a few texels back, the rest in float64 here.
// A device that draws only 16-bit floats could not even count to a map's pixels: all of it is done here.
import type { Value } from "../plan.ts";
import { finished } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { FOLD_MOMENTS, FOLD_SUMS, MOMENTS, SPREAD } from "./kernels.ts";
import { stripsOf } from "./numbers.ts";
import type { PlanObjects } from "./objects.ts";
import { drawPasses, freeSurface, makeSurface, type Surface, writePasses } from "./passes.ts";
import type { Linked } from "./programs.ts";
import { groupsOf } from "./ranges.ts";
import { reducedHere } from "./summary.ts";

const COLUMNS = 1024;
const LAYERS = 4;

/** One channel, as the device reduced it; sums are divided by the number of pixels. */
export interface Reduced {
  readonly pixels: number;
  readonly low: number;
  readonly high: number;
  readonly sum: number;
  readonly count: number;
  /** Squared distances from the mean, in units of the greatest absolute value. */
  readonly squares: number;
  readonly zeros: number;
  readonly nan: number;
  readonly inf: number;
}

/** The programs of statistics, compiled when they are first asked for and kept while the context lives. */
export class Reducer {
  private readonly device: GlDevice;
  private readonly generation: number;
  private linked: Promise<readonly Linked[]> | undefined;

  constructor(device: GlDevice) {
    this.device = device;
    this.generation = device.generation;
  }

  /** Resolves to what reduces every channel of one image now. */
  async ready(): Promise<(value: Value, image: number, objects: PlanObjects) => Reduced[]> {
    const { device, generation } = this;
    if (device.resources.drawn === "rgba16f") {
      return (value, image, objects) => {
        device.check(generation);
        objects.draw(value.read.step);
        return reducedHere(objects.read(value.read.step), value.layout.frame, image);
      };
    }
    this.linked ??= this.build();
    const linked = await this.linked.catch((error: unknown) => {
      this.linked = undefined; // the next question may find more room
      throw error;
    });
    return (value, image, objects) => {
      device.check(generation);
      return reduceChannels(device, value, image, objects.texture(value.texture), linked);
    };
  }

  /** Software renderers build a pipeline at its first draw: nothing is drawn here, and nobody waits in a read. */
  private async build(): Promise<readonly Linked[]> {
    const { device, generation } = this;
    const linked = await device.programs.acquire([MOMENTS, FOLD_MOMENTS, SPREAD, FOLD_SUMS]);
    device.check(generation);
    try {
      await this.warm(linked);
    } catch (error) {
      if (device.generation === generation) device.programs.release(linked);
      throw error;
    }
    return linked;
  }

  private async warm(linked: readonly Linked[]): Promise<void> {
    const { device } = this;
    const [from, target] = [makeSurface(device, 1, 1, LAYERS), makeSurface(device, 1, 1, LAYERS)];
    const buffer = device.resources.buffer(0, "DYNAMIC_DRAW");
    const inputs = [from.texture, from.texture];
    const numbers = { integers: [] };
    const area = whole(target);
    const passes = linked.map((one) => ({ linked: one, inputs, target, area, numbers }));
    writePasses(device, buffer, passes);
    drawPasses(device, buffer, passes);
    for (const surface of [from, target]) freeSurface(device, surface);
    device.resources.freeBuffer(buffer);
    await finished(device);
    device.resources.checkMemory(from.bytes + target.bytes);
  }

  dispose(): void {
    const { device, generation } = this;
    const release = (linked: readonly Linked[]) => {
      if (device.generation === generation) device.programs.release(linked);
    };
    this.linked?.then(release, () => undefined);
    this.linked = undefined;
  }
}

function reduceChannels(
  device: GlDevice,
  value: Value,
  image: number,
  texture: WebGLTexture,
  linked: readonly Linked[],
): Reduced[] {
  const [moments, foldMoments, spread, foldSums] = linked;
  if (!moments || !foldMoments || !spread || !foldSums) return [];
  const [, c = 0, h = 0, w = 0] = value.words;
  const groups = groupsOf(value);
  const { strips, lines } = stripsOf(value.words);
  const total = groups * strips;
  const targetOf = (texels: number) =>
    makeSurface(device, Math.min(COLUMNS, texels), Math.ceil(texels / COLUMNS), LAYERS);
  const [scratch, first, second] = [targetOf(total), targetOf(groups), targetOf(groups)];
  const buffer = device.resources.buffer(0, "DYNAMIC_DRAW");
  const walk = (by: Linked, joining: Linked, result: Surface, inputs: WebGLTexture[]) => {
    const into = strips > 1 ? scratch : result;
    const integers = [[image, strips, lines, total], [into.width], [first.width]];
    const numbers = { words: value.words, integers, floats: [[h * w]] };
    const passes = [{ linked: by, inputs, target: into, area: whole(into), numbers }];
    if (strips === 1) return passes;
    const folds = [[strips, total, groups], [result.width], [scratch.width]];
    return [
      ...passes,
      {
        linked: joining,
        inputs: [scratch.texture],
        target: result,
        area: whole(result),
        numbers: { integers: folds },
      },
    ];
  };
  try {
    const passes = [
      ...walk(moments, foldMoments, first, [texture]),
      ...walk(spread, foldSums, second, [texture, first.texture]),
    ];
    writePasses(device, buffer, passes);
    drawPasses(device, buffer, passes);
    const [low, high, sum, count] = layersOf(device, first);
    const [squares, zeros, nan, inf] = layersOf(device, second);
    device.check();
    device.resources.checkMemory(scratch.bytes + first.bytes + second.bytes);
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
  } finally {
    for (const target of [scratch, first, second]) freeSurface(device, target);
    device.resources.freeBuffer(buffer);
  }
}

function whole({ width, height }: Surface): [number, number, number, number] {
  return [0, 0, width, height];
}

function layersOf(device: GlDevice, target: Surface): Float32Array[] {
  const { gl, state } = device;
  state.target(target.framebuffer);
  return Array.from({ length: target.layers }, (_, k) => {
    const data = new Float32Array(target.width * target.height * 4);
    gl.readBuffer(gl.COLOR_ATTACHMENT0 + k);
    gl.readPixels(0, 0, target.width, target.height, gl.RGBA, gl.FLOAT, data);
    return data;
  });
}
