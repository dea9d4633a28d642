// The minimum and maximum of each channel, and of all channels of an image, in a texture that the display samples
// without readback. Computed once per run, only for values that are drawn.

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
 * Texels per row of the results. Rows are short so that most areas have several: software renderers draw square tiles
 * and distribute rows over threads.
 */
export const RANGE_COLUMNS = 256;
/** The most rows of a batch's partial results, unless a single value needs more. */
const MAX_BATCH_ROWS = 2048;
const RESULT_LAYERS = 2; // minimum and maximum
/** Values that one pass reduces: the number of input layouts in a uniform block. */
const VALUES_PER_PASS = 4;
/** A row that no pass draws. */
const NO_ROW = 2 ** 24;
/** Time constant of slow ranges: the distance to the target shrinks by 1 − 1/e in this time. */
const SMOOTHING_MS = 500;

/** The position of a value's ranges in the texels of `results`, counted row by row. */
export interface RangeTexel {
  /** Index of the first channel group's texel; the others follow. */
  readonly first: number;
  /** Column and row of the range that all channels share. */
  readonly layerTexel: readonly [number, number];
}

interface RangeSlot extends RangeTexel {
  readonly groups: number;
  readonly strips: StripPlan;
  image: number;
  sequence: number;
  /** Time of the last computation or hold, by performance.now(). */
  time: number;
  /** The share of the last run in the stored range, from 0 to 1. */
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
  /** The previous ranges, from which slow ranges start. */
  private readonly previous: WebGLTexture;
  private prepared: PreparedRanges | undefined;

  private constructor(device: GlDevice, values: Iterable<Value>, linked: readonly LinkedProgram[]) {
    this.device = device;
    this.linked = linked;
    // Modules and outputs share their last layer's texture, and so have one slot.
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
    // Large enough for any batch: allocating between two pictures would block the page.
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

  /** Replace these ranges by ranges for other values. */
  withValues(values: Iterable<Value>): ColorRanges {
    this.free();
    return new ColorRanges(this.device, values, this.linked);
  }

  /** Draw one texel with each program: this builds the pipelines before a transfer has to wait for them. */
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
   * Compute the missing ranges of the wanted values for run `sequence`; return the number of elements reduced. A range
   * that an earlier run has shown for the same image changes slowly or is held, depending on `pace`.
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
    // Group the jobs by program: a pass reduces consecutive values.
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

  /**
   * Read the limits of a value's colours as currently drawn, of one channel or of all; returns a function, as
   * `readAsync` does.
   */
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

  /** Usually the jobs are the same as last time, with other values, so the passes are reused. */
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

  /** The passes that reduce all strips of a batch's values, a few values per pass. */
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
        inputs: padToPass(inputs, inputs[0] as WebGLTexture), // a unit must not hold the target
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

  /** One combining pass for all values of a batch. */
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

  /** Upload the list that combine.glsl reads: an entry for each texel of the results. */
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

/** A value whose ranges must be computed. */
interface RangeJob {
  readonly value: Value;
  readonly slot: RangeSlot;
  readonly image: number;
  readonly texture: WebGLTexture;
  /** The share of the new range; the rest is the previous range. */
  readonly mixFactor: number;
}

/** Passes whose uniforms are uploaded, reusable while the jobs are the same. */
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

/** Split jobs into batches that fit the scratch texture, with the rows that they take. */
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

/** Pad a list to the number of values per pass. */
function padToPass<T>(found: readonly T[], none: T): T[] {
  return Array.from({ length: VALUES_PER_PASS }, (_, k) => found[k] ?? none);
}

/** The number of a value's partial results. */
function partialCount({ groups, strips }: RangeSlot): number {
  return groups * strips.stripCount;
}

function scratchRows(slot: RangeSlot): number {
  return Math.ceil(partialCount(slot) / RANGE_COLUMNS);
}

/** The number of elements of one image of a value. */
export function elementsPerImage({ nchw }: Value): number {
  const [, c, h, w] = nchw;
  return c * h * w;
}
