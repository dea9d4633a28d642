// Top-k and argmax of scores on the GPU, while a view shows them: the largest scores of a vector, and the largest
// channel of each pixel.

import type { TopK } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { uniformSlots } from "../plan/uniform_slots.ts";
import type { GlDevice } from "./gl_device.ts";
import { readWhenIdle } from "./gpu_clock.ts";
import { createKernel } from "./kernels.ts";
import { LazyPrograms } from "./lazy_programs.ts";
import type { PlanObjects } from "./plan_objects.ts";
import type { LinkedProgram } from "./program_cache.ts";
import type { Runner } from "./runner.ts";
import likeliest from "./shaders/argmax.glsl";
import largest from "./shaders/topk.glsl";
import {
  createSurface,
  drawPasses,
  freeSurface,
  fullViewport,
  readSurfaceLayers,
  type Surface,
  type UtilityPass,
  uploadPassUniforms,
} from "./utility_passes.ts";

/** Texels per row of a surface. */
const SURFACE_COLUMNS = 1024;
/** With more scores, a fragment's loops would exceed llvmpipe's iteration limit (codegen/glsl.py: ROUNDS). */
const MAX_SCORES = 2 ** 20;
const MAX_CHANNELS = 2 ** 13;
/** The most pixels whose classes are read back and counted. */
const MAX_POSITIONS = 2 ** 23;

// The layout of tensors in strips; all other layouts can be read this way too.
const ANY_LAYOUT_DEFINES = { WRAPPED: 1 };
const TOPK_SLOTS = uniformSlots({
  image: "int",
  /** Scores of the image, scores per stretch, and number of stretches. */
  scores: "int",
  stretch: "int",
  stretches: "int",
  /** Width of the first pass's output. */
  width: "int",
});
export const TOPK_PROGRAMS = [
  createKernel(
    "largest of stretches",
    ["x0", "a"],
    TOPK_SLOTS,
    { MERGES: 0, ...ANY_LAYOUT_DEFINES },
    largest,
  ),
  createKernel("largest", ["x0", "a"], TOPK_SLOTS, { MERGES: 1, ...ANY_LAYOUT_DEFINES }, largest),
];
const ARGMAX_SLOTS = uniformSlots({ image: "int", channels: "int", places: "int", width: "int" });
export const ARGMAX_PROGRAMS = [
  createKernel("likeliest", ["x0"], ARGMAX_SLOTS, ANY_LAYOUT_DEFINES, likeliest),
];

/** Scores per fragment in the first pass, chosen so that both passes take equally long. */
const scoresPerFragment = (scores: number, count: number): number =>
  Math.max(16, Math.ceil(Math.sqrt((2 * scores) / count)));

export class ScoreReductions {
  private readonly device: GlDevice;
  private readonly runner: Runner;
  /** Programs of the current context. */
  private programSet: {
    readonly generation: number;
    largest: LazyPrograms;
    likeliest: LazyPrograms;
  };

  constructor(device: GlDevice, runner: Runner) {
    this.device = device;
    this.runner = runner;
    this.programSet = this.createPrograms();
  }

  /** See Session. */
  async topk(key: string, count: number, image: number): Promise<TopK | undefined> {
    const [, scores, height, width] = this.runner.findValue(key).nchw;
    const fits = height * width === 1 && scores > count && scores <= MAX_SCORES;
    if (!fits || !this.rendersFloat32) return undefined;
    const linked = await this.programs().largest.getLinkedPrograms();
    const [found] = await this.drawWhenFresh(key, (value, objects) =>
      this.drawTopk(linked, value, count, image, objects),
    );
    const [texels = new Float32Array()] = await found;
    const pick = (lane: number) =>
      Array.from({ length: count }, (_, k) => texels[2 * k + lane] ?? Number.NaN);
    return { scores: pick(0), indices: pick(1) };
  }

  /** See Session. */
  async argmax(key: string, image: number): Promise<Float32Array | undefined> {
    const [, channels, height, width] = this.runner.findValue(key).nchw;
    const fits = channels > 1 && channels <= MAX_CHANNELS && height * width <= MAX_POSITIONS;
    if (!fits || !this.rendersFloat32) return undefined;
    const linked = await this.programs().likeliest.getLinkedPrograms();
    const [found] = await this.drawWhenFresh(key, (value, objects) =>
      this.drawArgmax(linked, value, image, objects),
    );
    const [texels = new Float32Array()] = await found;
    return texels.subarray(0, height * width);
  }

  dispose(): void {
    this.programSet.largest.dispose();
    this.programSet.likeliest.dispose();
  }

  /** A device that only renders 16-bit floats could not even represent a score's index. */
  private get rendersFloat32(): boolean {
    return this.device.resources.renderFormat === "rgba32f";
  }

  private createPrograms(): typeof this.programSet {
    const { device } = this;
    const own = (sources: typeof TOPK_PROGRAMS) => new LazyPrograms(device, sources, 1);
    return {
      generation: device.generation,
      largest: own(TOPK_PROGRAMS),
      likeliest: own(ARGMAX_PROGRAMS),
    };
  }

  private programs(): typeof this.programSet {
    if (this.programSet.generation !== this.device.generation)
      this.programSet = this.createPrograms();
    return this.programSet;
  }

  /** Draw once the value is current; resolves to a promise of the result. */
  private drawWhenFresh(
    key: string,
    draw: (value: Value, objects: PlanObjects) => () => Float32Array[],
  ) {
    const { device, runner } = this;
    return runner.whenFresh(runner.findValue(key), (objects) => {
      const found = readWhenIdle(device, draw(runner.findValue(key), objects)); // it may have moved
      found.catch(() => undefined); // the run's own caller gets the error first
      return [found] as const;
    });
  }

  private drawTopk(
    linked: readonly LinkedProgram[],
    value: Value,
    count: number,
    image: number,
    objects: PlanObjects,
  ): () => Float32Array[] {
    const [, scores] = value.nchw;
    const stretch = scoresPerFragment(scores, count);
    const stretches = Math.ceil(scores / stretch);
    const texture = objects.texture(value.texture);
    const found = createResultSurface(this.device, Math.ceil(count / 2));
    const firsts = createResultSurface(this.device, stretches);
    const [finding, merging] = linked as [LinkedProgram, LinkedProgram];
    const own = TOPK_SLOTS.fill({ image, scores, stretch, stretches, width: firsts.width });
    const uniforms = { inputLayouts: value.layout_words, slotWords: own };
    // The first pass does not read its second texture, but that texture must not be its target.
    const inputs = [texture, texture];
    return this.draw([
      { linked: finding, inputs, target: firsts, viewport: fullViewport(firsts), uniforms },
      {
        linked: merging,
        inputs: [texture, firsts.texture],
        target: found,
        viewport: fullViewport(found),
        uniforms,
      },
    ]);
  }

  private drawArgmax(
    [linked]: readonly LinkedProgram[],
    value: Value,
    image: number,
    objects: PlanObjects,
  ): () => Float32Array[] {
    const [, channels, height, width] = value.nchw;
    const places = height * width;
    const target = createResultSurface(this.device, Math.ceil(places / 4));
    const own = ARGMAX_SLOTS.fill({ image, channels, places, width: target.width });
    const uniforms = { inputLayouts: value.layout_words, slotWords: own };
    const inputs = [objects.texture(value.texture)];
    return this.draw([
      { linked: linked as LinkedProgram, inputs, target, viewport: fullViewport(target), uniforms },
    ]);
  }

  /** Draw passes; the returned function reads the last pass's output, once the GPU has finished. */
  private draw(passes: readonly UtilityPass[]): () => Float32Array[] {
    const { device } = this;
    const { resources } = device;
    const buffer = resources.createBuffer(0, "DYNAMIC_DRAW");
    uploadPassUniforms(device, buffer, passes);
    drawPasses(device, buffer, passes);
    const last = passes.at(-1) as UtilityPass;
    const read = readSurfaceLayers(device, last.target);
    for (const { target } of passes) freeSurface(device, target);
    resources.freeBuffer(buffer);
    return read;
  }
}

function createResultSurface(device: GlDevice, texels: number): Surface {
  return createSurface(
    device,
    Math.min(SURFACE_COLUMNS, texels),
    Math.ceil(texels / SURFACE_COLUMNS),
    1,
  );
}
