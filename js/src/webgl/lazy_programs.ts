// Programs that are compiled on first use and kept while the context lives.

import type { ProgramSource } from "../plan/program_source.ts";
import type { GlDevice } from "./gl_device.ts";
import { waitForIdle } from "./gpu_clock.ts";
import type { LinkedProgram } from "./program_cache.ts";
import {
  createSurface,
  drawPasses,
  freeSurface,
  fullViewport,
  uploadPassUniforms,
} from "./utility_passes.ts";

export class LazyPrograms {
  private readonly device: GlDevice;
  private readonly sources: readonly ProgramSource[];
  private readonly generation: number;
  /** The number of render targets that the programs write. */
  private readonly targetCount: number;
  private linkTask: Promise<readonly LinkedProgram[]> | undefined;

  constructor(device: GlDevice, sources: readonly ProgramSource[], targetCount = 4) {
    this.device = device;
    this.sources = sources;
    this.generation = device.generation;
    this.targetCount = targetCount;
  }

  async getLinkedPrograms(): Promise<readonly LinkedProgram[]> {
    this.linkTask ??= this.build();
    return await this.linkTask.catch((error: unknown) => {
      this.linkTask = undefined; // a later attempt may find more memory
      throw error;
    });
  }

  /**
   * Software renderers build a pipeline at the first draw: draw once here, so that a later read does not wait for it.
   */
  private async build(): Promise<readonly LinkedProgram[]> {
    const { device, generation } = this;
    const linked = await device.programs.acquire(this.sources);
    device.check(generation);
    try {
      await this.warmUp(linked);
    } catch (error) {
      if (device.generation === generation) device.programs.release(linked);
      throw error;
    }
    return linked;
  }

  private async warmUp(linked: readonly LinkedProgram[]): Promise<void> {
    const { device } = this;
    const one = () => createSurface(device, 1, 1, this.targetCount);
    const [from, target] = [one(), one()];
    const buffer = device.resources.createBuffer(0, "DYNAMIC_DRAW");
    const inputs = [from.texture, from.texture];
    const viewport = fullViewport(target);
    const passes = linked.map((one) => ({ linked: one, inputs, target, viewport, uniforms: {} }));
    uploadPassUniforms(device, buffer, passes);
    drawPasses(device, buffer, passes);
    for (const surface of [from, target]) freeSurface(device, surface);
    device.resources.freeBuffer(buffer);
    await waitForIdle(device);
    device.resources.checkMemory(from.bytes + target.bytes);
  }

  dispose(): void {
    const { device, generation } = this;
    const release = (linked: readonly LinkedProgram[]) => {
      if (device.generation === generation) device.programs.release(linked);
    };
    this.linkTask?.then(release, () => undefined);
    this.linkTask = undefined;
  }
}
