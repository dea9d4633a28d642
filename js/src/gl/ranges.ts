// The least and greatest value of each channel, and of an image's channels together, in textures that
// the display samples: nothing is read back. Computed once a run, only for what is drawn.
import type { PlanHeader, Value } from "../plan.ts";
import type { GlDevice } from "./device.ts";
import { EXTENT, FOLD_EXTENT } from "./kernels.ts";
import { type Strips, stripsOf } from "./numbers.ts";
import { drawPasses, freeSurface, makeSurface, type OwnPass, type Surface } from "./passes.ts";
import type { Linked } from "./programs.ts";

/** Texels in a row of the results; a value's channel groups start a row. */
export const RANGE_COLUMNS = 256;
/** Narrow, so that most areas have several rows: processors draw squares of pixels, and share rows among threads. */
const SCRATCH_COLUMNS = 256;
/** Rows of a batch's partial results; more is what one value may need. */
const BATCH_ROWS = 2048;
/** Texels that one fragment folds. */
const FOLDED = 128;
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
  private scratch: [Surface, Surface] | undefined;

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
  }

  static async make(device: GlDevice, plan: PlanHeader): Promise<Ranges> {
    const { generation } = device;
    const linked = await device.programs.acquire([EXTENT, FOLD_EXTENT]);
    device.check(generation);
    return new Ranges(device, plan, linked);
  }

  get bytes(): number {
    const targets = [this.channels, this.shared, ...(this.scratch ?? [])];
    return targets.reduce((sum, target) => sum + target.bytes, 0);
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
    try {
      this.grow(Math.max(...batches.map(({ rows }) => rows)));
    } catch (error) {
      for (const { slot } of jobs) slot.sequence = -1;
      throw error;
    }
    const passes = batches.flatMap(({ placed }) => {
      const each = placed.map((one) => this.passesOf(one));
      // All first passes, then all second ones: a target is left once, and no pass waits for the one before it.
      const steps = Math.max(...each.map((steps) => steps.length));
      return Array.from({ length: steps }, (_, k) => byTarget(each.flatMap((all) => all[k] ?? [])));
    });
    drawPasses(this.device, this.buffer, passes.flat());
  }

  place(value: Value): Place {
    const slot = this.slots.get(value);
    if (slot === undefined) throw new Error(`no ranges of ${JSON.stringify(value.key)}`);
    return slot;
  }

  dispose(): void {
    const { device } = this;
    for (const target of [this.channels, this.shared, ...(this.scratch ?? [])]) {
      freeSurface(device, target);
    }
    device.resources.freeBuffer(this.buffer);
    device.programs.release(this.linked);
  }

  private passesOf({ job, row: first }: Placed): OwnPass[] {
    const { value, slot, image, texture } = job;
    const [extent, fold] = this.linked;
    const [near, far] = this.scratch ?? [];
    if (!extent || !fold || !near || !far) return [];
    const groups = groupsOf(value);
    const { strips, lines } = slot.strips;
    const total = groups * strips;
    const channels: Area = { target: this.channels, x: 0, y: slot.row, width: RANGE_COLUMNS };
    const [x, y] = slot.shared;
    const shared: Area = { target: this.shared, x, y, width: 1 };
    const scratch = (target: Surface): Area => ({ target, x: 0, y: first, width: SCRATCH_COLUMNS });

    const walked = strips > 1 ? scratch(near) : channels;
    const passes: OwnPass[] = [
      {
        linked: extent,
        inputs: [texture],
        ...into(walked, total),
        numbers: {
          words: value.words,
          integers: [[image, strips, lines, total], corner(walked)],
        },
      },
    ];
    const join = (from: Area, to: Area, count: number, n: number) => {
      const out = Math.ceil(count / n);
      passes.push({
        linked: fold,
        inputs: [from.target.texture],
        ...into(to, out),
        numbers: { integers: [[n, count, out, 0], corner(to), corner(from)] },
      });
      return out;
    };
    if (strips > 1) join(walked, channels, total, strips);
    let from = channels;
    let count = groups;
    for (let k = 0; count > FOLDED; k++) {
      const to = scratch(k % 2 === 0 ? far : near);
      count = join(from, to, count, FOLDED);
      from = to;
    }
    join(from, shared, count, count);
    return passes;
  }

  private grow(rows: number): void {
    if (this.scratch !== undefined && this.scratch[0].height >= rows) return;
    for (const target of this.scratch ?? []) freeSurface(this.device, target);
    this.scratch = undefined;
    const make = () => makeSurface(this.device, SCRATCH_COLUMNS, rows, LAYERS);
    const made = [make(), make()] as [Surface, Surface];
    try {
      this.device.resources.checkMemory(made[0].bytes + made[1].bytes);
    } catch (error) {
      for (const target of made) freeSurface(this.device, target);
      throw error;
    }
    this.scratch = made;
  }
}

/** A value's ranges that aren't known yet. */
interface Job {
  readonly value: Value;
  readonly slot: Slot;
  readonly image: number;
  readonly texture: WebGLTexture;
}

interface Placed {
  readonly job: Job;
  /** First row of its partial results in the scratch textures. */
  readonly row: number;
}

/** Jobs that have room beside each other in the scratch textures, and the rows that they take. */
function batchesOf(jobs: readonly Job[]): { readonly placed: Placed[]; readonly rows: number }[] {
  const batches: { placed: Placed[]; rows: number }[] = [];
  let batch = { placed: [] as Placed[], rows: BATCH_ROWS };
  for (const job of jobs) {
    const rows = Math.ceil((groupsOf(job.value) * job.slot.strips.strips) / SCRATCH_COLUMNS);
    if (batch.rows + rows > BATCH_ROWS) {
      batch = { placed: [], rows: 0 };
      batches.push(batch);
    }
    batch.placed.push({ job, row: batch.rows });
    batch.rows += rows;
  }
  return batches;
}

function byTarget(passes: readonly OwnPass[]): OwnPass[] {
  const targets = new Set(passes.map(({ target }) => target));
  return [...targets].flatMap((target) => passes.filter((pass) => pass.target === target));
}

/** Texels in rows of `width` from a corner of a target on. */
interface Area {
  readonly target: Surface;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

function corner({ x, y, width }: Area): number[] {
  return [width, x, y, 0];
}

function into(area: Area, count: number): Pick<OwnPass, "target" | "area"> {
  const width = Math.min(area.width, count);
  return { target: area.target, area: [area.x, area.y, width, Math.ceil(count / area.width)] };
}

export function groupsOf(value: Value): number {
  return value.words[7] ?? 1;
}
