// What is picked out of scores on the device, while somebody looks at it: the largest of a vector, and of each place.

import type { Largest } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { slots } from "../plan/slots.ts";
import { whenDone } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { kernel } from "./kernels.ts";
import { OwnPrograms } from "./lazy_programs.ts";
import type { PlanObjects } from "./objects.ts";
import {
  drawPasses,
  freeSurface,
  layersOf,
  makeSurface,
  type OwnPass,
  type Surface,
  whole,
  writePasses,
} from "./passes.ts";
import type { Linked } from "./programs.ts";
import type { Runner } from "./runner.ts";
import likeliest from "./shaders/argmax.glsl";
import largest from "./shaders/topk.glsl";

/** Texels beside each other in a texture of ours. */
const COLUMNS = 1024;
/** Of more scores a fragment would go round its loops more often than llvmpipe lets it (codegen/glsl.py: ROUNDS). */
const MOST_SCORES = 2 ** 20;
const MOST_CHANNELS = 2 ** 13;
/** So many places are brought here and counted at most. */
const MOST_PLACES = 2 ** 23;

// As of tensors in strips, which every other one can be read as.
const ANYHOW = { WRAPPED: 1 };
const LARGEST_SLOTS = slots({
  image: "int",
  /** Of the image, and of a stretch of them. */
  scores: "int",
  stretch: "int",
  stretches: "int",
  /** Of what the first draw writes. */
  width: "int",
});
export const LARGEST = [
  kernel("largest of stretches", ["x0", "a"], LARGEST_SLOTS, { MERGES: 0, ...ANYHOW }, largest),
  kernel("largest", ["x0", "a"], LARGEST_SLOTS, { MERGES: 1, ...ANYHOW }, largest),
];
const LIKELIEST_SLOTS = slots({ image: "int", channels: "int", places: "int", width: "int" });
export const LIKELIEST = [kernel("likeliest", ["x0"], LIKELIEST_SLOTS, ANYHOW, likeliest)];

/** Scores that one fragment goes through in the first draw: both draws take equally long then. */
const stretchOf = (scores: number, count: number): number =>
  Math.max(16, Math.ceil(Math.sqrt((2 * scores) / count)));

export class Scores {
  private readonly device: GlDevice;
  private readonly runner: Runner;
  /** Of the context of now. */
  private made: { readonly generation: number; largest: OwnPrograms; likeliest: OwnPrograms };

  constructor(device: GlDevice, runner: Runner) {
    this.device = device;
    this.runner = runner;
    this.made = this.make();
  }

  /** See Session. */
  async largest(key: string, count: number, image: number): Promise<Largest | undefined> {
    const [, scores, height, width] = this.runner.find(key).nchw;
    const fits = height * width === 1 && scores > count && scores <= MOST_SCORES;
    if (!fits || !this.isExact) return undefined;
    const linked = await this.programs().largest.ready();
    const [found] = await this.ask(key, (value, objects) =>
      this.drawLargest(linked, value, count, image, objects),
    );
    const [texels = new Float32Array()] = await found;
    const pick = (lane: number) =>
      Array.from({ length: count }, (_, k) => texels[2 * k + lane] ?? Number.NaN);
    return { scores: pick(0), places: pick(1) };
  }

  /** See Session. */
  async likeliest(key: string, image: number): Promise<Float32Array | undefined> {
    const [, channels, height, width] = this.runner.find(key).nchw;
    const fits = channels > 1 && channels <= MOST_CHANNELS && height * width <= MOST_PLACES;
    if (!fits || !this.isExact) return undefined;
    const linked = await this.programs().likeliest.ready();
    const [found] = await this.ask(key, (value, objects) =>
      this.drawLikeliest(linked, value, image, objects),
    );
    const [texels = new Float32Array()] = await found;
    return texels.subarray(0, height * width);
  }

  dispose(): void {
    this.made.largest.dispose();
    this.made.likeliest.dispose();
  }

  /** One that draws 16-bit floats alone could not even say where a score is. */
  private get isExact(): boolean {
    return this.device.resources.drawn === "rgba32f";
  }

  private make(): typeof this.made {
    const { device } = this;
    const own = (sources: typeof LARGEST) => new OwnPrograms(device, sources, 1);
    return { generation: device.generation, largest: own(LARGEST), likeliest: own(LIKELIEST) };
  }

  private programs(): typeof this.made {
    if (this.made.generation !== this.device.generation) this.made = this.make();
    return this.made;
  }

  /** Draws when the value is that of the current inputs; resolves to what is drawn, on its way. */
  private ask(key: string, draw: (value: Value, objects: PlanObjects) => () => Float32Array[]) {
    const { device, runner } = this;
    return runner.whenFresh(runner.find(key), (objects) => {
      const found = whenDone(device, draw(runner.find(key), objects)); // it may lie elsewhere now
      found.catch(() => undefined); // whoever waits for the run is told first
      return [found] as const;
    });
  }

  private drawLargest(
    linked: readonly Linked[],
    value: Value,
    count: number,
    image: number,
    objects: PlanObjects,
  ): () => Float32Array[] {
    const [, scores] = value.nchw;
    const stretch = stretchOf(scores, count);
    const stretches = Math.ceil(scores / stretch);
    const texture = objects.texture(value.texture);
    const found = surface(this.device, Math.ceil(count / 2));
    const firsts = surface(this.device, stretches);
    const [finding, merging] = linked as [Linked, Linked];
    const own = LARGEST_SLOTS.fill({ image, scores, stretch, stretches, width: firsts.width });
    const numbers = { words: value.words, own };
    // The first draw reads none of its second texture, which may not be the one that it writes.
    const inputs = [texture, texture];
    return this.draw([
      { linked: finding, inputs, target: firsts, area: whole(firsts), numbers },
      {
        linked: merging,
        inputs: [texture, firsts.texture],
        target: found,
        area: whole(found),
        numbers,
      },
    ]);
  }

  private drawLikeliest(
    [linked]: readonly Linked[],
    value: Value,
    image: number,
    objects: PlanObjects,
  ): () => Float32Array[] {
    const [, channels, height, width] = value.nchw;
    const places = height * width;
    const target = surface(this.device, Math.ceil(places / 4));
    const own = LIKELIEST_SLOTS.fill({ image, channels, places, width: target.width });
    const numbers = { words: value.words, own };
    const inputs = [objects.texture(value.texture)];
    return this.draw([{ linked: linked as Linked, inputs, target, area: whole(target), numbers }]);
  }

  /** Draws passes; what is returned reads what the last one has written, once the device has done it. */
  private draw(passes: readonly OwnPass[]): () => Float32Array[] {
    const { device } = this;
    const { resources } = device;
    const buffer = resources.buffer(0, "DYNAMIC_DRAW");
    writePasses(device, buffer, passes);
    drawPasses(device, buffer, passes);
    const last = passes.at(-1) as OwnPass;
    const read = layersOf(device, last.target);
    for (const { target } of passes) freeSurface(device, target);
    resources.freeBuffer(buffer);
    return read;
  }
}

function surface(device: GlDevice, texels: number): Surface {
  return makeSurface(device, Math.min(COLUMNS, texels), Math.ceil(texels / COLUMNS), 1);
}
