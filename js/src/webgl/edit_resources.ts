// What edits have on the device, by names: programs, textures, tables of channels and injected arrays.

import { arraySize, padded, tableOf, tableSize } from "../plan/edit_program.ts";
import type { Stock } from "../plan/edit_schedule.ts";
import type { ProgramSource } from "../plan/program_source.ts";
import { PlanError } from "../plan/runtime.ts";
import type { Texture, Value } from "../plan/schema.ts";
import { calm, finished } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import type { PlanObjects } from "./objects.ts";
import type { Linked } from "./programs.ts";
import { warmed } from "./warm_up.ts";

/** Uploading waits for the device after this long, and the page can draw a frame. */
const UPLOAD_MS = 16;
/** Programs of somebody's own texts that are kept, though they may not be needed any more. */
const MOST_OWN = 8;

interface Table {
  readonly value: Value;
  readonly channels: readonly number[] | null;
}

/** Notes all that is asked for, and gives what is there: -1 for what isn't. */
export class Needs implements Stock {
  /** By their texts, each with what it draws into. */
  readonly programs = new Map<string, readonly [ProgramSource, Texture]>();
  readonly textures = new Map<string, Texture>();
  readonly tables = new Map<string, Table>();
  /** Hashes. */
  readonly arrays = new Map<string, string>();
  readonly longest: number;
  private readonly device: GlDevice;
  private readonly shelf: Shelf | undefined;

  constructor(device: GlDevice, shelf: Shelf | undefined) {
    this.device = device;
    this.shelf = shelf;
    this.longest = device.capabilities.target.max_texture_size;
  }

  program(source: ProgramSource, like: Texture): number {
    this.programs.set(source.source, [source, this.held(like)]);
    return this.shelf?.programs.get(source.source) ?? -1;
  }

  texture(name: string, size: Texture): number {
    this.textures.set(name, this.held(size));
    return this.find(name);
  }

  table(of: string, value: Value, channels: readonly number[] | null): number {
    const name = `table ${of}`;
    this.tables.set(name, { value, channels });
    return this.find(name);
  }

  array(hash: string, name = `array ${hash}`): number {
    this.arrays.set(name, hash);
    return this.find(name);
  }

  has(name: string): boolean {
    return this.find(name) >= 0;
  }

  private find(name: string): number {
    return this.shelf?.textures.get(name) ?? -1;
  }

  /** As a texture can be had here. */
  private held(size: Texture): Texture {
    const { drawn } = this.device.resources;
    return drawn === "rgba16f" ? { ...size, format: drawn } : size;
  }
}

export class Shelf {
  readonly objects: PlanObjects;
  /** The objects are freed, or gone with their context. */
  isLeft = false;
  /** By their texts: kept as long as the session, so that what was removed comes back at once. */
  readonly programs = new Map<string, number>();
  readonly textures = new Map<string, number>();
  private readonly device: GlDevice;
  /** What is in each table and array. */
  private readonly filled = new Map<string, string>();

  constructor(device: GlDevice, objects: PlanObjects) {
    this.device = device;
    this.objects = objects;
  }

  /** Whether all of it is there. */
  has({ programs, textures, tables, arrays }: Needs): boolean {
    const names = [...textures.keys(), ...tables.keys(), ...arrays.keys()];
    return (
      [...programs.keys()].every((text) => this.programs.has(text)) &&
      names.every((name) => this.textures.has(name))
    );
  }

  /** Compiles, allocates and uploads what isn't there, beside whatever runs; `check` throws when that is useless. */
  async make(
    needs: Needs,
    array: (hash: string) => Float32Array,
    check: () => void,
  ): Promise<void> {
    const { device, objects } = this;
    await this.compile(needs, check);
    const added: string[] = [];
    const add = (name: string, size: Texture) => {
      if (this.textures.has(name)) return;
      this.textures.set(name, objects.add(size));
      added.push(name);
    };
    try {
      for (const [name, size] of needs.textures) add(name, size);
      for (const [name, { value }] of needs.tables) {
        add(name, { ...tableSize(value), format: "rgba32f" });
      }
      for (const [name, hash] of needs.arrays) {
        if (this.textures.has(name)) continue;
        const data = padded(array(hash));
        const size = { ...arraySize(data.length), format: "rgba32f" } as const;
        if (size.height > needs.longest) {
          throw new PlanError(`an array of ${data.length} numbers is too large for this device`);
        }
        add(name, size);
        await this.upload(name, size, data, check);
        this.filled.set(name, hash);
      }
      if (added.length === 0) return;
      await calm(device); // asking for errors would hold the page until all of it is allocated
      check();
      device.resources.checkMemory(objects.bytes);
    } catch (error) {
      this.forget(added);
      throw error;
    }
  }

  private async compile({ programs }: Needs, check: () => void): Promise<void> {
    const { device, objects } = this;
    const missing = [...programs].filter(([text]) => !this.programs.has(text));
    if (missing.length === 0) return;
    const linked = await device.programs.acquire(missing.map(([, [source]]) => source));
    if (this.isLeft && objects.generation === device.generation) device.programs.release(linked);
    check();
    for (const [k, [text]] of missing.entries()) {
      this.programs.set(text, objects.addProgram(linked[k] as Linked));
    }
    await warmed(
      device,
      missing.map(([, [, like]], k) => [linked[k] as Linked, like]),
    );
    check();
  }

  private async upload(
    name: string,
    size: Texture,
    data: Float32Array,
    check: () => void,
  ): Promise<void> {
    let since = performance.now();
    const texture = this.objects.texture(this.textures.get(name) ?? -1);
    for (const _ of this.device.resources.upload(texture, size, data)) {
      if (performance.now() - since < UPLOAD_MS) continue;
      await finished(this.device);
      check();
      since = performance.now();
    }
  }

  /** Writes tables that have other channels now, and arrays that keep their place. */
  fill({ tables, arrays }: Needs, array: (hash: string) => Float32Array): void {
    for (const [name, hash] of arrays) {
      if (this.filled.get(name) === hash) continue;
      const data = padded(array(hash));
      const patch = { texture: -1, layer: 0, x: 0, y: 0, ...arraySize(data.length), data };
      this.device.resources.patch(this.objects.texture(this.textures.get(name) ?? -1), patch);
      this.filled.set(name, hash);
    }
    for (const [name, { value, channels }] of tables) {
      const text = `${channels}`;
      if (this.filled.get(name) === text) continue;
      const patch = { texture: -1, layer: 0, x: 0, y: 0, ...tableSize(value) };
      const texture = this.objects.texture(this.textures.get(name) ?? -1);
      this.device.resources.patch(texture, { ...patch, data: tableOf(value, channels) });
      this.filled.set(name, text);
    }
  }

  /** Frees what isn't needed, but for textures whose names begin like this. */
  tidy({ programs, textures, tables, arrays }: Needs, still: readonly string[]): void {
    const names = [...this.textures.keys()].filter(
      (name) => !textures.has(name) && !tables.has(name) && !arrays.has(name),
    );
    this.forget(names.filter((name) => !still.some((one) => name.startsWith(one))));
    // A text that is being written is a new program with each letter.
    const own = [...this.programs].filter(([text]) => text.includes("#define CUSTOM 1\n"));
    const old = own.filter(([text]) => !programs.has(text));
    for (const [text, index] of old.slice(0, Math.max(0, own.length - MOST_OWN))) {
      this.objects.removeProgram(index);
      this.programs.delete(text);
    }
  }

  private forget(names: readonly string[]): void {
    if (this.isLeft || this.objects.generation !== this.device.generation) return;
    for (const name of names) {
      const index = this.textures.get(name);
      this.textures.delete(name);
      this.filled.delete(name);
      if (index !== undefined) this.objects.remove(index);
    }
  }
}
