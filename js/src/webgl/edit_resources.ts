// GPU resources of edits, by name: programs, textures, channel tables and injected arrays.

import {
  arrayTextureSize,
  channelTable,
  channelTableSize,
  packTexels,
} from "../plan/edit_program.ts";
import type { ResourcePool } from "../plan/edit_schedule.ts";
import type { ProgramSource } from "../plan/program_source.ts";
import { PlanError } from "../plan/runtime.ts";
import type { Texture, Value } from "../plan/schema.ts";
import type { GlDevice } from "./gl_device.ts";
import { waitForFence, waitForIdle } from "./gpu_clock.ts";
import type { PlanObjects } from "./plan_objects.ts";
import type { LinkedProgram } from "./program_cache.ts";
import { warmUpPrograms } from "./warm_up.ts";

/** Milliseconds of uploads after which the page waits for the GPU and can draw a frame. */
const MAX_UPLOAD_BURST_MS = 16;
/** The most programs of custom shader text that are kept, even if unused. */
const MAX_CUSTOM_PROGRAMS = 8;

interface ChannelTable {
  readonly value: Value;
  readonly channels: readonly number[] | null;
}

/** Records all requested resources and returns the existing ones; -1 if a resource does not exist yet. */
export class ResourceRequests implements ResourcePool {
  /** By shader text, each with the texture that it draws into. */
  readonly programs = new Map<string, readonly [ProgramSource, Texture]>();
  readonly textures = new Map<string, Texture>();
  readonly tables = new Map<string, ChannelTable>();
  /** Hashes of the arrays, by name. */
  readonly arrays = new Map<string, string>();
  readonly maxTextureSide: number;
  private readonly device: GlDevice;
  private readonly resources: EditResources | undefined;

  constructor(device: GlDevice, editResources: EditResources | undefined) {
    this.device = device;
    this.resources = editResources;
    this.maxTextureSide = device.capabilities.target.max_texture_size;
  }

  requestProgram(source: ProgramSource, renderTarget: Texture): number {
    this.programs.set(source.source, [source, this.withSupportedFormat(renderTarget)]);
    return this.resources?.programs.get(source.source) ?? -1;
  }

  requestTexture(name: string, size: Texture): number {
    this.textures.set(name, this.withSupportedFormat(size));
    return this.find(name);
  }

  requestChannelTable(tableName: string, value: Value, channels: readonly number[] | null): number {
    const name = `table ${tableName}`;
    this.tables.set(name, { value, channels });
    return this.find(name);
  }

  requestInjectedArray(hash: string, name = `array ${hash}`): number {
    this.arrays.set(name, hash);
    return this.find(name);
  }

  hasTexture(name: string): boolean {
    return this.find(name) >= 0;
  }

  private find(name: string): number {
    return this.resources?.textures.get(name) ?? -1;
  }

  /** The texture in a format that this device supports. */
  private withSupportedFormat(size: Texture): Texture {
    const { renderFormat } = this.device.resources;
    return renderFormat === "rgba16f" ? { ...size, format: renderFormat } : size;
  }
}

export class EditResources {
  readonly objects: PlanObjects;
  /** The objects are freed, or lost with their context. */
  isDetached = false;
  /** By shader text; kept for the session's lifetime, so that a removed edit can return at once. */
  readonly programs = new Map<string, number>();
  readonly textures = new Map<string, number>();
  private readonly device: GlDevice;
  /** The content of each table and array. */
  private readonly contents = new Map<string, string>();

  constructor(device: GlDevice, objects: PlanObjects) {
    this.device = device;
    this.objects = objects;
  }

  /** Whether all requested resources exist. */
  hasAllRequested({ programs, textures, tables, arrays }: ResourceRequests): boolean {
    const names = [...textures.keys(), ...tables.keys(), ...arrays.keys()];
    return (
      [...programs.keys()].every((text) => this.programs.has(text)) &&
      names.every((name) => this.textures.has(name))
    );
  }

  /**
   * Compile, allocate and upload missing resources without blocking active runs; `throwIfCancelled` throws if the work
   * is no longer needed.
   */
  async allocate(
    requests: ResourceRequests,
    getArray: (hash: string) => Float32Array,
    throwIfCancelled: () => void,
  ): Promise<void> {
    const { device, objects } = this;
    await this.compile(requests, throwIfCancelled);
    const added: string[] = [];
    const add = (name: string, size: Texture) => {
      if (this.textures.has(name)) return;
      this.textures.set(name, objects.addTexture(size));
      added.push(name);
    };
    try {
      for (const [name, size] of requests.textures) add(name, size);
      for (const [name, { value }] of requests.tables) {
        add(name, { ...channelTableSize(value), format: "rgba32f" });
      }
      for (const [name, hash] of requests.arrays) {
        if (this.textures.has(name)) continue;
        const data = packTexels(getArray(hash));
        const size = { ...arrayTextureSize(data.length), format: "rgba32f" } as const;
        if (size.height > requests.maxTextureSide) {
          throw new PlanError(`an array of ${data.length} numbers is too large for this device`);
        }
        add(name, size);
        await this.upload(name, size, data, throwIfCancelled);
        this.contents.set(name, hash);
      }
      if (added.length === 0) return;
      await waitForIdle(device); // getError would block the page until everything is allocated
      throwIfCancelled();
      device.resources.checkMemory(objects.bytes);
    } catch (error) {
      this.freeTextures(added);
      throw error;
    }
  }

  private async compile(
    { programs }: ResourceRequests,
    throwIfCancelled: () => void,
  ): Promise<void> {
    const { device, objects } = this;
    const missing = [...programs].filter(([text]) => !this.programs.has(text));
    if (missing.length === 0) return;
    const linked = await device.programs.acquire(missing.map(([, [source]]) => source));
    if (this.isDetached && objects.generation === device.generation)
      device.programs.release(linked);
    throwIfCancelled();
    for (const [k, [text]] of missing.entries()) {
      this.programs.set(text, objects.addProgram(linked[k] as LinkedProgram));
    }
    await warmUpPrograms(
      device,
      missing.map(([, [, like]], k) => [linked[k] as LinkedProgram, like]),
    );
    throwIfCancelled();
  }

  private async upload(
    name: string,
    size: Texture,
    data: Float32Array,
    throwIfCancelled: () => void,
  ): Promise<void> {
    let since = performance.now();
    const texture = this.objects.texture(this.textures.get(name) ?? -1);
    for (const _ of this.device.resources.upload(texture, size, data)) {
      if (performance.now() - since < MAX_UPLOAD_BURST_MS) continue;
      await waitForFence(this.device);
      throwIfCancelled();
      since = performance.now();
    }
  }

  /** Write tables whose channels changed, and arrays that keep their texture. */
  writeContents(
    { tables, arrays }: ResourceRequests,
    getArray: (hash: string) => Float32Array,
  ): void {
    for (const [name, hash] of arrays) {
      if (this.contents.get(name) === hash) continue;
      const data = packTexels(getArray(hash));
      const patch = { texture: -1, layer: 0, x: 0, y: 0, ...arrayTextureSize(data.length), data };
      this.device.resources.uploadPatch(this.objects.texture(this.textures.get(name) ?? -1), patch);
      this.contents.set(name, hash);
    }
    for (const [name, { value, channels }] of tables) {
      const text = `${channels}`;
      if (this.contents.get(name) === text) continue;
      const patch = { texture: -1, layer: 0, x: 0, y: 0, ...channelTableSize(value) };
      const texture = this.objects.texture(this.textures.get(name) ?? -1);
      this.device.resources.uploadPatch(texture, { ...patch, data: channelTable(value, channels) });
      this.contents.set(name, text);
    }
  }

  /** Free unused resources, except textures whose names start with one of `keptNamePrefixes`. */
  freeUnused(
    { programs, textures, tables, arrays }: ResourceRequests,
    keptNamePrefixes: readonly string[],
  ): void {
    const names = [...this.textures.keys()].filter(
      (name) => !textures.has(name) && !tables.has(name) && !arrays.has(name),
    );
    this.freeTextures(
      names.filter((name) => !keptNamePrefixes.some((one) => name.startsWith(one))),
    );
    // While custom shader text is typed, each keystroke creates a program.
    const own = [...this.programs].filter(([text]) => text.includes("#define CUSTOM 1\n"));
    const old = own.filter(([text]) => !programs.has(text));
    for (const [text, index] of old.slice(0, Math.max(0, own.length - MAX_CUSTOM_PROGRAMS))) {
      this.objects.removeProgram(index);
      this.programs.delete(text);
    }
  }

  private freeTextures(names: readonly string[]): void {
    if (this.isDetached || this.objects.generation !== this.device.generation) return;
    for (const name of names) {
      const index = this.textures.get(name);
      this.textures.delete(name);
      this.contents.delete(name);
      if (index !== undefined) this.objects.removeTexture(index);
    }
  }
}
