// The least and greatest value of each channel, and of an image's channels together, in a texture that
// the display samples: nothing is read back. Computed once a run, only for what is drawn.

import type { RangeSmoothing } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { channelGroupCount, isReshaped, planStrips, type StripPlan } from "../plan/uniforms.ts";
import type { GlDevice } from "./gl_device.ts";
import { COMBINE, COMBINE_SLOTS, MIN_MAX, MIN_MAX_SLOTS, RESHAPED_MIN_MAX } from "./kernels.ts";
import type { LinkedProgram } from "./programs.ts";
import {
  createSurface,
  drawPasses,
  freeSurface,
  readAsync,
  type Surface,
  type UtilityPass,
  uploadPassUniforms,
} from "./utility_passes.ts";

/**
 * Texels in a row of all results. Narrow, so that most areas have several rows: processors draw squares of pixels,
 * and share rows among threads.
 */
export const RANGE_COLUMNS = 256;
/** Rows of a batch's partial results; more is what one value may need. */
const MAX_BATCH_ROWS = 2048;
const RESULT_LAYERS = 2; // least and greatest
/** Values that one pass reduces: the inputs whose layouts a uniform block has. */
const VALUES_PER_PASS = 4;
/** A row that no pass draws. */
const NO_ROW = 2 ** 24;
/** Ranges that follow slowly come nearer by 1 − 1/e in this time. */
const SMOOTHING_MS = 500;

/** Where a value's ranges lie among all texels of `found`, counted along its rows. */
export interface RangeTexel {
  /** Number of its first channel group's texel; the others follow. */
  readonly first: number;
  /** Column and row of what its channels have together. */
  readonly layerTexel: readonly [number, number];
}

interface RangeSlot extends RangeTexel {
  readonly groups: number;
  readonly strips: StripPlan;
  image: number;
  sequence: number;
  /** When it was computed or held, by performance.now(). */
  time: number;
  /** How much of it is that run's, from 0 to 1. */
  mixFactor: number;
}

export class ColorRanges {
  readonly results: Surface;
  private readonly device: GlDevice;
  private readonly linked: readonly LinkedProgram[];
  private readonly slots = new Map<Value, RangeSlot>();
  private readonly buffer: WebGLBuffer;
  private readonly entries: WebGLTexture;
  private readonly scratch: Surface;
  /** What was found before, to come from there slowly. */
  private readonly previous: WebGLTexture;
  private prepared: PreparedRanges | undefined;

  private constructor(device: GlDevice, values: Iterable<Value>, linked: readonly LinkedProgram[]) {
    this.device = device;
    this.linked = linked;
    // Modules and outputs share their last layer's texture: one slot for all of them.
    const same = new Map<string, RangeSlot>();
    let texels = 0;
    for (const value of values) {
      const name = `${value.texture} ${value.layout_words.join()} ${value.nchw.join()}`;
      let slot = same.get(name);
      if (slot === undefined) {
        const groups = channelGroupCount(value);
        const last = texels + groups;
        const layerTexel = [last % RANGE_COLUMNS, Math.floor(last / RANGE_COLUMNS)] as const;
        const strips = planStrips(value);
        slot = {
          first: texels,
          layerTexel,
          groups,
          strips,
          image: -1,
          sequence: -1,
          time: 0,
          mixFactor: 1,
        };
        same.set(name, slot);
        texels = last + 1;
      }
      this.slots.set(value, slot);
    }
    const rows = Math.max(1, Math.ceil(texels / RANGE_COLUMNS));
    // Room for any batch: to ask for it between two pictures would hold the page.
    const needed = [...same.values()].map(scratchRows);
    const all = needed.reduce((a, b) => a + b, 0);
    const most = Math.max(1, ...needed, Math.min(MAX_BATCH_ROWS, all));
    this.results = createSurface(device, RANGE_COLUMNS, rows, RESULT_LAYERS);
    this.scratch = createSurface(device, RANGE_COLUMNS, most, RESULT_LAYERS);
    this.previous = device.resources.createTexture(this.results);
    this.buffer = device.resources.createBuffer(0, "DYNAMIC_DRAW");
    this.entries = device.resources.createTexture({ ...this.results, layers: 1 }, "rgba32f");
  }

  static async create(device: GlDevice, values: readonly Value[]): Promise<ColorRanges> {
    const { generation } = device;
    const reshaped = values.some(isReshaped) ? [RESHAPED_MIN_MAX] : [];
    const linked = await device.programs.acquire([COMBINE, MIN_MAX, ...reshaped]);
    device.check(generation);
    return new ColorRanges(device, values, linked);
  }

  /** Those of other values, in the place of these. */
  withValues(values: Iterable<Value>): ColorRanges {
    this.free();
    return new ColorRanges(this.device, values, this.linked);
  }

  /** Draws a texel with each program: their pipelines are built while nobody waits in a transfer. */
  warmUp(): void {
    const passes = this.linked.map((linked): UtilityPass => {
      const inputs = new Array<WebGLTexture>(VALUES_PER_PASS).fill(this.entries);
      return { linked, inputs, target: this.results, viewport: [0, 0, 1, 1], uniforms: {} };
    });
    uploadPassUniforms(this.device, this.buffer, passes);
    drawPasses(this.device, this.buffer, passes);
  }

  get bytes(): number {
    const { results, scratch } = this;
    return 2 * results.bytes + scratch.bytes + results.width * results.height * 16;
  }

  /**
   * Computes what isn't known yet of image `image` in run `sequence`; how many numbers it goes over. What another run has
   * shown of that image goes there slowly, or is held.
   */
  update(
    wanted: readonly { value: Value; image: number; texture: WebGLTexture }[],
    sequence: number,
    pace: RangeSmoothing,
  ): number {
    const now = performance.now();
    const some = wanted.flatMap(({ value, image, texture }) => {
      const slot = this.slots.get(value);
      if (slot === undefined) return [];
      const since = now - slot.time;
      const isSame = slot.image === image;
      if (isSame && pace === "held") slot.time = now;
      const isDone = slot.sequence === sequence && (pace === "slow" || slot.mixFactor === 1);
      if (isSame && (pace === "held" || isDone)) return [];
      const mixFactor = isSame && pace === "slow" ? 1 - Math.exp(-since / SMOOTHING_MS) : 1;
      Object.assign(slot, { image, sequence, time: now, mixFactor });
      return [{ value, slot, image, texture, mixFactor }];
    });
    if (some.length === 0) return 0;
    // One program after the other: each reduces values that are beside each other.
    const jobs = [
      ...some.filter(({ value }) => !isReshaped(value)),
      ...some.filter(({ value }) => isReshaped(value)),
    ];
    const { passes } = this.preparePasses(jobs);
    const { previous, device, results } = this;
    const isSlow = jobs.some(({ mixFactor }) => mixFactor < 1);
    if (isSlow) device.resources.copyTexture(results.framebuffer, previous, results);
    drawPasses(this.device, this.buffer, passes);
    return jobs.reduce((sum, { value }) => sum + elementsPerImage(value), 0);
  }

  locate(value: Value): RangeTexel {
    const slot = this.slots.get(value);
    if (slot === undefined) throw new Error(`no ranges of ${JSON.stringify(value.key)}`);
    return slot;
  }

  /** The ends of a value's colours as they are drawn now, of one channel or of all: as `readAsync`. */
  read(value: Value, channel: number | undefined): () => readonly [low: number, high: number] {
    const { first, layerTexel } = this.locate(value);
    const at = first + ((channel ?? 0) >> 2);
    const [x, y] =
      channel === undefined ? layerTexel : [at % RANGE_COLUMNS, Math.floor(at / RANGE_COLUMNS)];
    const { gl, state } = this.device;
    const read = readAsync(this.device, 8, () => {
      state.bindFramebuffer(this.results.framebuffer);
      for (let layer = 0; layer < RESULT_LAYERS; layer++) {
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
    for (const surface of [this.results, this.scratch]) freeSurface(device, surface);
    for (const one of [this.entries, this.previous]) device.resources.freeTexture(one);
    device.resources.freeBuffer(this.buffer);
  }

  /** Usually what was done last is to be done again, with other values. */
  private preparePasses(jobs: readonly RangeJob[]): PreparedRanges {
    const { prepared } = this;
    if (prepared !== undefined && sameJobs(prepared.jobs, jobs)) return prepared;
    this.prepared = undefined;
    const batches = batchesOf(jobs);
    this.uploadEntries(batches);
    const passes = batches.flatMap(({ placed }, batch) => [
      ...[false, true].flatMap((reshaped) => {
        const some = placed.filter(({ job }) => isReshaped(job.value) === reshaped);
        return this.reducePasses(some, this.scratch, reshaped ? 2 : 1);
      }),
      ...this.combinePasses(placed, this.scratch, batch),
    ]);
    uploadPassUniforms(this.device, this.buffer, passes);
    this.prepared = { jobs, passes };
    return this.prepared;
  }

  /** The passes that find the ranges of all strips of a batch's values, a few values each. */
  private reducePasses(
    placed: readonly PlacedJob[],
    target: Surface,
    program: number,
  ): UtilityPass[] {
    const linked = this.linked[program];
    if (linked === undefined) return [];
    const starts = placed.flatMap((_, k) => (k % VALUES_PER_PASS === 0 ? [k] : []));
    return starts.map((start) => {
      const some = placed.slice(start, start + VALUES_PER_PASS);
      const row = some[0]?.row ?? 0;
      const end = Math.max(...some.map((one) => one.row + scratchRows(one.job.slot)));
      const width = Math.max(...some.map(({ job }) => partialCount(job.slot)));
      const works = some.map(({ job: { slot, image } }) => {
        return [
          image,
          slot.strips.stripCount,
          slot.strips.linesPerStrip,
          partialCount(slot),
        ] as const;
      });
      const rows = padToPass(
        some.map((one) => one.row),
        NO_ROW,
      );
      const inputs = some.map(({ job }) => job.texture);
      return {
        linked,
        inputs: padToPass(inputs, inputs[0] as WebGLTexture), // no unit may hold what is drawn into
        target,
        viewport: [0, row, Math.min(RANGE_COLUMNS, width), end - row],
        uniforms: {
          nchw: some.map(({ job }) => job.value.nchw),
          inputLayouts: some.flatMap(({ job }) => job.value.layout_words),
          slotWords: MIN_MAX_SLOTS.fill({
            work: padToPass(works, [0, 0, 0, 0]),
            rows: rows.map((row) => [row, RANGE_COLUMNS] as const),
          }),
        },
      };
    });
  }

  /** One pass for all values of a batch. */
  private combinePasses(placed: readonly PlacedJob[], from: Surface, batch: number): UtilityPass[] {
    const [linked] = this.linked;
    if (linked === undefined) return [];
    const share = placed[0]?.job.mixFactor ?? 1;
    const inputs = [from.texture, this.entries, this.previous];
    const first = Math.min(...placed.map(({ job }) => job.slot.first));
    const last = Math.max(...placed.map(({ job }) => job.slot.first + job.slot.groups));
    const bottom = Math.floor(first / RANGE_COLUMNS);
    const rows = Math.floor(last / RANGE_COLUMNS) + 1 - bottom;
    const viewport = [0, bottom, RANGE_COLUMNS, rows] as const;
    const slotWords = COMBINE_SLOTS.fill({ batch, width: RANGE_COLUMNS, share });
    return [{ linked, inputs, target: this.results, viewport, uniforms: { slotWords } }];
  }

  /** Writes combine.glsl's list: an entry for each texel of the results. */
  private uploadEntries(batches: readonly Batch[]): void {
    const { device, entries, results } = this;
    const data = new Float32Array(results.width * results.height * 4).fill(-1);
    for (const [batch, { placed }] of batches.entries()) {
      for (const { job, row } of placed) {
        const { first, groups, strips } = job.slot;
        const from = row * RANGE_COLUMNS;
        for (let k = 0; k < groups; k++) {
          data.set([from + k * strips.stripCount, strips.stripCount, batch], (first + k) * 4);
        }
        data.set([from, partialCount(job.slot), batch], (first + groups) * 4);
      }
    }
    for (const _ of device.resources.upload(entries, { ...results, layers: 1 }, data));
  }
}

/** A value's ranges that aren't known yet. */
interface RangeJob {
  readonly value: Value;
  readonly slot: RangeSlot;
  readonly image: number;
  readonly texture: WebGLTexture;
  /** Of what is found now, where the rest is what was there. */
  readonly mixFactor: number;
}

/** Passes whose numbers are on the device, good for as long as the same is to be done. */
interface PreparedRanges {
  readonly jobs: readonly RangeJob[];
  readonly passes: readonly UtilityPass[];
}

interface PlacedJob {
  readonly job: RangeJob;
  /** First row of its partial results in the scratch texture. */
  readonly row: number;
}

interface Batch {
  readonly placed: PlacedJob[];
  rows: number;
}

/** Jobs that have room beside each other in the scratch texture, and the rows that they take. */
function batchesOf(jobs: readonly RangeJob[]): Batch[] {
  const batches: Batch[] = [];
  let batch: Batch = { placed: [], rows: MAX_BATCH_ROWS };
  for (const job of jobs) {
    const rows = scratchRows(job.slot);
    if (batch.rows + rows > MAX_BATCH_ROWS || batch.placed[0]?.job.mixFactor !== job.mixFactor) {
      batch = { placed: [], rows: 0 };
      batches.push(batch);
    }
    batch.placed.push({ job, row: batch.rows });
    batch.rows += rows;
  }
  return batches;
}

function sameJobs(a: readonly RangeJob[], b: readonly RangeJob[]): boolean {
  const same = (one: RangeJob, other: RangeJob | undefined) =>
    one.slot === other?.slot &&
    one.image === other.image &&
    one.texture === other.texture &&
    one.mixFactor === other.mixFactor;
  return a.length === b.length && a.every((one, k) => same(one, b[k]));
}

/** A list for all sources of a pass. */
function padToPass<T>(found: readonly T[], none: T): T[] {
  return Array.from({ length: VALUES_PER_PASS }, (_, k) => found[k] ?? none);
}

/** How many partial results a value has. */
function partialCount({ groups, strips }: RangeSlot): number {
  return groups * strips.stripCount;
}

function scratchRows(slot: RangeSlot): number {
  return Math.ceil(partialCount(slot) / RANGE_COLUMNS);
}

/** Numbers of one image of a value. */
export function elementsPerImage({ nchw }: Value): number {
  const [, c, h, w] = nchw;
  return c * h * w;
}
