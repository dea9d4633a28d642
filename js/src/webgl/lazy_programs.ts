// Programs that are compiled when they are first asked for, and kept while the context lives.

import type { ProgramSource } from "../plan/program_source.ts";
import { calm } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { drawPasses, freeSurface, makeSurface, whole, writePasses } from "./passes.ts";
import type { Linked } from "./programs.ts";

export class OwnPrograms {
  private readonly device: GlDevice;
  private readonly sources: readonly ProgramSource[];
  private readonly generation: number;
  /** Targets that they write. */
  private readonly layers: number;
  private linked: Promise<readonly Linked[]> | undefined;

  constructor(device: GlDevice, sources: readonly ProgramSource[], layers = 4) {
    this.device = device;
    this.sources = sources;
    this.generation = device.generation;
    this.layers = layers;
  }

  async ready(): Promise<readonly Linked[]> {
    this.linked ??= this.build();
    return await this.linked.catch((error: unknown) => {
      this.linked = undefined; // the next question may find more room
      throw error;
    });
  }

  /** Software renderers build a pipeline at its first draw: nothing is drawn here, and nobody waits in a read. */
  private async build(): Promise<readonly Linked[]> {
    const { device, generation } = this;
    const linked = await device.programs.acquire(this.sources);
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
    const one = () => makeSurface(device, 1, 1, this.layers);
    const [from, target] = [one(), one()];
    const buffer = device.resources.buffer(0, "DYNAMIC_DRAW");
    const inputs = [from.texture, from.texture];
    const area = whole(target);
    const passes = linked.map((one) => ({ linked: one, inputs, target, area, numbers: {} }));
    writePasses(device, buffer, passes);
    drawPasses(device, buffer, passes);
    for (const surface of [from, target]) freeSurface(device, surface);
    device.resources.freeBuffer(buffer);
    await calm(device);
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
