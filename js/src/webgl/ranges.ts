// The least and greatest value of each channel, and of an image's channels together, in a texture that
// the display samples: nothing is read back. Computed once a run, only for what is drawn.

import type { RangePace } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { groupsOf, isReshaped, type Strips, stripsOf } from "../plan/uniforms.ts";
import type { GlDevice } from "./device.ts";
import { COMBINE, COMBINE_SLOTS, MIN_MAX, MIN_MAX_SLOTS, RESHAPED_MIN_MAX } from "./kernels.ts";
import {
  copied,
  drawPasses,
  freeSurface,
  makeSurface,
  type OwnPass,
  type Surface,
  writePasses,
} from "./passes.ts";
import type { Linked } from "./programs.ts";

/**
 * Texels in a row of all results. Narrow, so that most areas have several rows: processors draw squares of pixels,
 * and share rows among threads.
 */
export const RANGE_COLUMNS = 256;
/** Rows of a batch's partial results; more is what one value may need. */
const BATCH_ROWS = 2048;
const LAYERS = 2; // least and greatest
/** Values that one pass reduces: the inputs whose layouts a uniform block has. */
const SOURCES = 4;
/** A row that no pass draws. */
const NO_ROW = 2 ** 24;
/** Ranges that follow slowly come nearer by 1 − 1/e in this time. */
const SLOW_MS = 500;

/** Where a value's ranges lie among all texels of `found`, counted along its rows. */
export interface Place {
  /** Number of its first channel group's texel; the others follow. */
  readonly first: number;
  /** Column and row of what its channels have together. */
  readonly shared: readonly [number, number];
}

interface Slot extends Place {
  readonly groups: number;
  readonly strips: Strips;
  image: number;
  sequence: number;
  /** When it was computed or held, by performance.now(). */
  time: number;
  /** How much of it is that run's, from 0 to 1. */
  share: number;
}

export class Ranges {
  readonly found: Surface;
  private readonly device: GlDevice;
  private readonly linked: readonly Linked[];
  private readonly slots = new Map<Value, Slot>();
  private readonly buffer: WebGLBuffer;
  private readonly entries: WebGLTexture;
  private readonly scratch: Surface;
  /** What was found before, to come from there slowly. */
  private readonly before: WebGLTexture;
  private prepared: Prepared | undefined;

  private constructor(device: GlDevice, values: Iterable<Value>, linked: readonly Linked[]) {
    this.device = device;
    this.linked = linked;
    // Modules and outputs share their last layer's texture: one slot for all of them.
    const same = new Map<string, Slot>();
    let texels = 0;
    for (const value of values) {
      const name = `${value.texture} ${value.words.join()} ${value.nchw.join()}`;
      let slot = same.get(name);
      if (slot === undefined) {
        const groups = groupsOf(value);
        const last = texels + groups;
        const shared = [last % RANGE_COLUMNS, Math.floor(last / RANGE_COLUMNS)] as const;
        const strips = stripsOf(value);
        slot = {
          first: texels,
          shared,
          groups,
          strips,
          image: -1,
          sequence: -1,
          time: 0,
          share: 1,
        };
        same.set(name, slot);
        texels = last + 1;
      }
      this.slots.set(value, slot);
    }
    const rows = Math.max(1, Math.ceil(texels / RANGE_COLUMNS));
    // Room for any batch: to ask for it between two pictures would hold the page.
    const needed = [...same.values()].map(rowsOf);
    const all = needed.reduce((a, b) => a + b, 0);
    const most = Math.max(1, ...needed, Math.min(BATCH_ROWS, all));
    this.found = makeSurface(device, RANGE_COLUMNS, rows, LAYERS);
    this.scratch = makeSurface(device, RANGE_COLUMNS, most, LAYERS);
    this.before = device.resources.texture(this.found);
    this.buffer = device.resources.buffer(0, "DYNAMIC_DRAW");
    this.entries = device.resources.texture({ ...this.found, layers: 1 }, "rgba32f");
  }

  static async make(device: GlDevice, values: readonly Value[]): Promise<Ranges> {
    const { generation } = device;
    const reshaped = values.some(isReshaped) ? [RESHAPED_MIN_MAX] : [];
    const linked = await device.programs.acquire([COMBINE, MIN_MAX, ...reshaped]);
    device.check(generation);
    return new Ranges(device, values, linked);
  }

  /** Those of other values, in the place of these. */
  replaced(values: Iterable<Value>): Ranges {
    this.free();
    return new Ranges(this.device, values, this.linked);
  }

  /** Draws a texel with each program: their pipelines are built while nobody waits in a transfer. */
  warm(): void {
    const passes = this.linked.map((linked): OwnPass => {
      const inputs = new Array<WebGLTexture>(SOURCES).fill(this.entries);
      return { linked, inputs, target: this.found, area: [0, 0, 1, 1], numbers: {} };
    });
    writePasses(this.device, this.buffer, passes);
    drawPasses(this.device, this.buffer, passes);
  }

  get bytes(): number {
    const { found, scratch } = this;
    return 2 * found.bytes + scratch.bytes + found.width * found.height * 16;
  }

  /**
   * Computes what isn't known yet of image `image` in run `sequence`; how many numbers it goes over. What another run has
   * shown of that image goes there slowly, or is held.
   */
  update(
    wanted: readonly { value: Value; image: number; texture: WebGLTexture }[],
    sequence: number,
    pace: RangePace,
  ): number {
    const now = performance.now();
    const some = wanted.flatMap(({ value, image, texture }) => {
      const slot = this.slots.get(value);
      if (slot === undefined) return [];
      const since = now - slot.time;
      const isSame = slot.image === image;
      if (isSame && pace === "held") slot.time = now;
      const isDone = slot.sequence === sequence && (pace === "slow" || slot.share === 1);
      if (isSame && (pace === "held" || isDone)) return [];
      const share = isSame && pace === "slow" ? 1 - Math.exp(-since / SLOW_MS) : 1;
      Object.assign(slot, { image, sequence, time: now, share });
      return [{ value, slot, image, texture, share }];
    });
    if (some.length === 0) return 0;
    // One program after the other: each reduces values that are beside each other.
    const jobs = [
      ...some.filter(({ value }) => !isReshaped(value)),
      ...some.filter(({ value }) => isReshaped(value)),
    ];
    const { passes } = this.prepare(jobs);
    const { before, device, found } = this;
    const isSlow = jobs.some(({ share }) => share < 1);
    if (isSlow) device.resources.copy(found.framebuffer, before, found);
    drawPasses(this.device, this.buffer, passes);
    return jobs.reduce((sum, { value }) => sum + numbersOf(value), 0);
  }

  place(value: Value): Place {
    const slot = this.slots.get(value);
    if (slot === undefined) throw new Error(`no ranges of ${JSON.stringify(value.key)}`);
    return slot;
  }

  /** The ends of a value's colours as they are drawn now, of one channel or of all: as `copied`. */
  read(value: Value, channel: number | undefined): () => readonly [low: number, high: number] {
    const { first, shared } = this.place(value);
    const at = first + ((channel ?? 0) >> 2);
    const [x, y] =
      channel === undefined ? shared : [at % RANGE_COLUMNS, Math.floor(at / RANGE_COLUMNS)];
    const { gl, state } = this.device;
    const read = copied(this.device, 8, () => {
      state.target(this.found.framebuffer);
      for (let layer = 0; layer < LAYERS; layer++) {
        gl.readBuffer(gl.COLOR_ATTACHMENT0 + layer);
        gl.readPixels(x, y, 1, 1, gl.RGBA, gl.FLOAT, layer * 16);
      }
    });
    return () => {
      const texels = read();
      const [lows, highs] = [texels.subarray(0, 4), texels.subarray(4)];
      if (channel === undefined) return [Math.min(...lows), Math.max(...highs)];
      return [lows[channel & 3] ?? 0, highs[channel & 3] ?? 0];
    };
  }

  dispose(): void {
    this.free();
    this.device.programs.release(this.linked);
  }

  private free(): void {
    const { device } = this;
    for (const surface of [this.found, this.scratch]) freeSurface(device, surface);
    for (const one of [this.entries, this.before]) device.resources.freeTexture(one);
    device.resources.freeBuffer(this.buffer);
  }

  /** Usually what was done last is to be done again, with other values. */
  private prepare(jobs: readonly Job[]): Prepared {
    const { prepared } = this;
    if (prepared !== undefined && sameJobs(prepared.jobs, jobs)) return prepared;
    this.prepared = undefined;
    const batches = batchesOf(jobs);
    this.list(batches);
    const passes = batches.flatMap(({ placed }, batch) => [
      ...[false, true].flatMap((reshaped) => {
        const some = placed.filter(({ job }) => isReshaped(job.value) === reshaped);
        return this.reduce(some, this.scratch, reshaped ? 2 : 1);
      }),
      ...this.combine(placed, this.scratch, batch),
    ]);
    writePasses(this.device, this.buffer, passes);
    this.prepared = { jobs, passes };
    return this.prepared;
  }

  /** The passes that find the ranges of all strips of a batch's values, a few values each. */
  private reduce(placed: readonly Placed[], target: Surface, program: number): OwnPass[] {
    const linked = this.linked[program];
    if (linked === undefined) return [];
    const starts = placed.flatMap((_, k) => (k % SOURCES === 0 ? [k] : []));
    return starts.map((start) => {
      const some = placed.slice(start, start + SOURCES);
      const row = some[0]?.row ?? 0;
      const end = Math.max(...some.map((one) => one.row + rowsOf(one.job.slot)));
      const width = Math.max(...some.map(({ job }) => partials(job.slot)));
      const works = some.map(({ job: { slot, image } }) => {
        return [image, slot.strips.strips, slot.strips.lines, partials(slot)] as const;
      });
      const rows = filled(
        some.map((one) => one.row),
        NO_ROW,
      );
      const inputs = some.map(({ job }) => job.texture);
      return {
        linked,
        inputs: filled(inputs, inputs[0] as WebGLTexture), // no unit may hold what is drawn into
        target,
        area: [0, row, Math.min(RANGE_COLUMNS, width), end - row],
        numbers: {
          nchw: some.map(({ job }) => job.value.nchw),
          words: some.flatMap(({ job }) => job.value.words),
          own: MIN_MAX_SLOTS.fill({
            work: filled(works, [0, 0, 0, 0]),
            rows: rows.map((row) => [row, RANGE_COLUMNS] as const),
          }),
        },
      };
    });
  }

  /** One pass for all values of a batch. */
  private combine(placed: readonly Placed[], from: Surface, batch: number): OwnPass[] {
    const [linked] = this.linked;
    if (linked === undefined) return [];
    const share = placed[0]?.job.share ?? 1;
    const inputs = [from.texture, this.entries, this.before];
    const first = Math.min(...placed.map(({ job }) => job.slot.first));
    const last = Math.max(...placed.map(({ job }) => job.slot.first + job.slot.groups));
    const bottom = Math.floor(first / RANGE_COLUMNS);
    const rows = Math.floor(last / RANGE_COLUMNS) + 1 - bottom;
    const area = [0, bottom, RANGE_COLUMNS, rows] as const;
    const own = COMBINE_SLOTS.fill({ batch, width: RANGE_COLUMNS, share });
    return [{ linked, inputs, target: this.found, area, numbers: { own } }];
  }

  /** Writes combine.glsl's list: an entry for each texel of the results. */
  private list(batches: readonly Batch[]): void {
    const { device, entries, found } = this;
    const data = new Float32Array(found.width * found.height * 4).fill(-1);
    for (const [batch, { placed }] of batches.entries()) {
      for (const { job, row } of placed) {
        const { first, groups, strips } = job.slot;
        const from = row * RANGE_COLUMNS;
        for (let k = 0; k < groups; k++) {
          data.set([from + k * strips.strips, strips.strips, batch], (first + k) * 4);
        }
        data.set([from, partials(job.slot), batch], (first + groups) * 4);
      }
    }
    for (const _ of device.resources.upload(entries, { ...found, layers: 1 }, data));
  }
}

/** A value's ranges that aren't known yet. */
interface Job {
  readonly value: Value;
  readonly slot: Slot;
  readonly image: number;
  readonly texture: WebGLTexture;
  /** Of what is found now, where the rest is what was there. */
  readonly share: number;
}

/** Passes whose numbers are on the device, good for as long as the same is to be done. */
interface Prepared {
  readonly jobs: readonly Job[];
  readonly passes: readonly OwnPass[];
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
    const rows = rowsOf(job.slot);
    if (batch.rows + rows > BATCH_ROWS || batch.placed[0]?.job.share !== job.share) {
      batch = { placed: [], rows: 0 };
      batches.push(batch);
    }
    batch.placed.push({ job, row: batch.rows });
    batch.rows += rows;
  }
  return batches;
}

function sameJobs(a: readonly Job[], b: readonly Job[]): boolean {
  const same = (one: Job, other: Job | undefined) =>
    one.slot === other?.slot &&
    one.image === other.image &&
    one.texture === other.texture &&
    one.share === other.share;
  return a.length === b.length && a.every((one, k) => same(one, b[k]));
}

/** A list for all sources of a pass. */
function filled<T>(found: readonly T[], none: T): T[] {
  return Array.from({ length: SOURCES }, (_, k) => found[k] ?? none);
}

/** How many partial results a value has. */
function partials({ groups, strips }: Slot): number {
  return groups * strips.strips;
}

function rowsOf(slot: Slot): number {
  return Math.ceil(partials(slot) / RANGE_COLUMNS);
}

/** Numbers of one image of a value. */
export function numbersOf({ nchw }: Value): number {
  const [, c, h, w] = nchw;
  return c * h * w;
}
