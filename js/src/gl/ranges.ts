// The least and greatest value of each channel, and of an image's channels together, in textures that
// the display samples: nothing is read back. Computed once a run, only for what is drawn.
import type { PlanHeader, Value } from "../plan.ts";
import type { GlDevice } from "./device.ts";
import { EXTENT, JOIN_CHANNELS, JOIN_STRIPS } from "./kernels.ts";
import { type Strips, stripsOf } from "./numbers.ts";
import { drawPasses, freeSurface, makeSurface, type OwnPass, type Surface } from "./passes.ts";
import type { Linked } from "./programs.ts";
import type { Size } from "./resources.ts";

/**
 * Texels in a row of all results; a value's channel groups start a row. Narrow, so that most areas have several rows:
 * processors draw squares of pixels, and share rows among threads.
 */
export const RANGE_COLUMNS = 256;
/** Rows of a batch's partial results; more is what one value may need. */
const BATCH_ROWS = 2048;
const LAYERS = 2; // least and greatest

/** Where a value's ranges lie. */
export interface Place {
  /** First row in `channels`. */
  readonly row: number;
  /** Column and row in `shared`. */
  readonly shared: readonly [number, number];
}

interface Slot extends Place {
  readonly strips: Strips;
  image: number;
  sequence: number;
}

export class Ranges {
  readonly channels: Surface;
  readonly shared: Surface;
  private readonly device: GlDevice;
  private readonly linked: readonly Linked[];
  private readonly slots = new Map<Value, Slot>();
  private readonly buffer: WebGLBuffer;
  private readonly entries: Entries;
  private scratch: Surface | undefined;

  private constructor(device: GlDevice, plan: PlanHeader, linked: readonly Linked[]) {
    this.device = device;
    this.linked = linked;
    // Modules and outputs share their last layer's texture: one slot for all of them.
    const same = new Map<string, Slot>();
    let rows = 0;
    for (const value of plan.values) {
      const name = `${value.texture} ${value.words.join()}`;
      let slot = same.get(name);
      if (slot === undefined) {
        const shared = [same.size % RANGE_COLUMNS, Math.floor(same.size / RANGE_COLUMNS)] as const;
        slot = { row: rows, shared, strips: stripsOf(value.words), image: -1, sequence: -1 };
        same.set(name, slot);
        rows += Math.ceil(groupsOf(value) / RANGE_COLUMNS);
      }
      this.slots.set(value, slot);
    }
    this.channels = makeSurface(device, RANGE_COLUMNS, Math.max(1, rows), LAYERS);
    const sharedRows = Math.max(1, Math.ceil(same.size / RANGE_COLUMNS));
    this.shared = makeSurface(device, RANGE_COLUMNS, sharedRows, LAYERS);
    this.buffer = device.resources.buffer(0, "DYNAMIC_DRAW");
    this.entries = new Entries(device, Math.max(this.channels.height, same.size));
  }

  static async make(device: GlDevice, plan: PlanHeader): Promise<Ranges> {
    const { generation } = device;
    const linked = await device.programs.acquire([EXTENT, JOIN_STRIPS, JOIN_CHANNELS]);
    device.check(generation);
    return new Ranges(device, plan, linked);
  }

  get bytes(): number {
    return this.surfaces.reduce((sum, { bytes }) => sum + bytes, this.entries.bytes);
  }

  /** Computes what isn't known yet of image `image` in run `sequence`. */
  update(
    wanted: readonly { value: Value; image: number; texture: WebGLTexture }[],
    sequence: number,
  ): void {
    const jobs = wanted.flatMap(({ value, image, texture }) => {
      const slot = this.slots.get(value);
      if (slot === undefined || (slot.image === image && slot.sequence === sequence)) return [];
      slot.image = image;
      slot.sequence = sequence;
      return [{ value, slot, image, texture }];
    });
    if (jobs.length === 0) return;
    const batches = batchesOf(jobs);
    const scratch = this.roomFor(jobs, Math.max(...batches.map(({ rows }) => rows)));
    this.entries.write(batches);
    const passes = batches.flatMap((one, batch) => [
      ...one.placed.flatMap((placed) => this.walk(placed, scratch)),
      ...this.join(JOINS.strips, scratch, this.channels, rowsOf(one), batch),
    ]);
    const { width, height } = this.shared;
    const all = [0, 0, Math.min(width, this.slots.size), height] as const;
    passes.push(...this.join(JOINS.channels, this.channels, this.shared, all, 0));
    drawPasses(this.device, this.buffer, passes);
  }

  place(value: Value): Place {
    const slot = this.slots.get(value);
    if (slot === undefined) throw new Error(`no ranges of ${JSON.stringify(value.key)}`);
    return slot;
  }

  dispose(): void {
    const { device } = this;
    for (const surface of this.surfaces) freeSurface(device, surface);
    this.entries.dispose();
    device.resources.freeBuffer(this.buffer);
    device.programs.release(this.linked);
  }

  private get surfaces(): Surface[] {
    const { channels, shared, scratch } = this;
    return scratch === undefined ? [channels, shared] : [channels, shared, scratch];
  }

  /** The pass that finds the ranges of all strips of a value. */
  private walk({ job, row }: Placed, target: Surface): OwnPass[] {
    const { value, slot, image, texture } = job;
    const [linked] = this.linked;
    if (linked === undefined) return [];
    const { strips, lines } = slot.strips;
    const total = groupsOf(value) * strips;
    const integers = [
      [image, strips, lines, total],
      [RANGE_COLUMNS, 0, row],
    ];
    const rows = Math.ceil(total / RANGE_COLUMNS);
    return [
      {
        linked,
        inputs: [texture],
        target,
        area: [0, row, Math.min(RANGE_COLUMNS, total), rows],
        numbers: { words: value.words, integers },
      },
    ];
  }

  /** One pass for all values of a batch. */
  private join(
    program: number,
    from: Surface,
    target: Surface,
    area: OwnPass["area"],
    batch: number,
  ): OwnPass[] {
    const linked = this.linked[program];
    if (linked === undefined) return [];
    const inputs = [from.texture, this.entries.texture];
    return [{ linked, inputs, target, area, numbers: { integers: [[batch], [RANGE_COLUMNS]] } }];
  }

  /** A surface for partial results with at least so many rows; where there is no room, the jobs are still to do. */
  private roomFor(jobs: readonly Job[], rows: number): Surface {
    if (this.scratch !== undefined && this.scratch.height >= rows) return this.scratch;
    if (this.scratch !== undefined) freeSurface(this.device, this.scratch);
    this.scratch = undefined;
    const made = makeSurface(this.device, RANGE_COLUMNS, rows, LAYERS);
    try {
      this.device.resources.checkMemory(made.bytes);
    } catch (error) {
      freeSurface(this.device, made);
      for (const { slot } of jobs) slot.sequence = -1;
      throw error;
    }
    this.scratch = made;
    return made;
  }
}

/** join.glsl's list: an entry a row of channels, and one a value. */
class Entries {
  readonly texture: WebGLTexture;
  private readonly device: GlDevice;
  private readonly size: Size;
  private data: Float32Array;

  constructor(device: GlDevice, count: number) {
    this.device = device;
    this.size = { width: RANGE_COLUMNS, height: Math.ceil(count / RANGE_COLUMNS), layers: 2 };
    this.texture = device.resources.texture(this.size, "rgba32f");
    this.data = new Float32Array(0);
  }

  get bytes(): number {
    const { width, height, layers } = this.size;
    return width * height * layers * 16;
  }

  /** Usually what was written last is to be done again. */
  write(batches: readonly Batch[]): void {
    const data = new Float32Array(this.bytes / 4).fill(-1);
    const each = data.length / 2;
    for (const [batch, { placed }] of batches.entries()) {
      for (const { job, row } of placed) {
        const { slot, value } = job;
        const groups = groupsOf(value);
        const [x, y] = slot.shared;
        data.set([slot.row * RANGE_COLUMNS, groups, 1, 0], each + (y * RANGE_COLUMNS + x) * 4);
        for (let k = 0; k * RANGE_COLUMNS < groups; k++) {
          const { strips } = slot.strips;
          const first = (row + k * strips) * RANGE_COLUMNS;
          const count = Math.min(RANGE_COLUMNS, groups - k * RANGE_COLUMNS);
          data.set([first, strips, count, batch], (slot.row + k) * 4);
        }
      }
    }
    if (data.every((number, k) => number === this.data[k])) return;
    this.data = data;
    for (const _ of this.device.resources.upload(this.texture, this.size, data));
  }

  dispose(): void {
    this.device.resources.freeTexture(this.texture);
  }
}

/** Programs by their place. */
const JOINS = { strips: 1, channels: 2 } as const;

/** A value's ranges that aren't known yet. */
interface Job {
  readonly value: Value;
  readonly slot: Slot;
  readonly image: number;
  readonly texture: WebGLTexture;
}

interface Placed {
  readonly job: Job;
  /** First row of its partial results in the scratch texture. */
  readonly row: number;
}

interface Batch {
  readonly placed: Placed[];
  rows: number;
}

/** Jobs that have room beside each other in the scratch texture, and the rows that they take. */
function batchesOf(jobs: readonly Job[]): Batch[] {
  const batches: Batch[] = [];
  let batch: Batch = { placed: [], rows: BATCH_ROWS };
  for (const job of jobs) {
    const rows = Math.ceil((groupsOf(job.value) * job.slot.strips.strips) / RANGE_COLUMNS);
    if (batch.rows + rows > BATCH_ROWS) {
      batch = { placed: [], rows: 0 };
      batches.push(batch);
    }
    batch.placed.push({ job, row: batch.rows });
    batch.rows += rows;
  }
  return batches;
}

/** The area of `channels` that a batch's values lie in. */
function rowsOf({ placed }: Batch): OwnPass["area"] {
  const groups = placed.map(({ job }) => groupsOf(job.value));
  const first = placed.map(({ job }) => job.slot.row);
  const last = first.map((row, k) => row + Math.ceil((groups[k] ?? 0) / RANGE_COLUMNS));
  const low = Math.min(...first);
  return [0, low, Math.min(RANGE_COLUMNS, Math.max(...groups)), Math.max(...last) - low];
}

export function groupsOf(value: Value): number {
  return value.words[7] ?? 1;
}
