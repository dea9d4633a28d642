// The minimum and maximum of each channel, and of all channels of an image, in a texture that the display samples
// without readback. Computed once per run, only for values that are drawn.

import type { RangeSmoothing } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import {
  channelGroupCount,
  isReshaped,
  type StripSplit,
  splitValueIntoStrips,
} from "../plan/uniforms.ts";
import type { GlDevice } from "./gl_device.ts";
import {
  COMBINE_KERNEL,
  COMBINE_SLOTS,
  MIN_MAX_KERNEL,
  MIN_MAX_SLOTS,
  RESHAPED_MIN_MAX_KERNEL,
} from "./kernels.ts";
import type { LinkedProgram } from "./program_cache.ts";
import {
  createSurface,
  drawPasses,
  freeSurface,
  type Surface,
  startReadback,
  type UtilityPass,
  uploadPassUniforms,
} from "./utility_passes.ts";

/**
 * Texels per row of the results. Rows are short so that most areas have several: software renderers draw square tiles
 * and distribute rows over threads.
 */
export const RANGE_COLUMNS = 256;
/** The most rows of a batch's partial results, unless a single value needs more. */
const MAX_SCRATCH_ROWS = 2048;
const RESULT_LAYERS = 2; // minimum and maximum
/** Values that one pass reduces: the number of input layouts in a uniform block. */
const VALUES_PER_PASS = 4;
/** A row that no pass draws. */
const UNDRAWN_ROW = 2 ** 24;
/** Time constant of slow ranges: the distance to the target shrinks by 1 − 1/e in this time. */
const SMOOTHING_MS = 500;

/** The position of a value's ranges in the texels of `results`, counted row by row. */
export interface RangeTexel {
  /** Index of the first channel group's texel; the others follow. */
  readonly firstTexel: number;
  /** Column and row of the range that all channels share. */
  readonly layerTexel: readonly [number, number];
}

interface RangeSlot extends RangeTexel {
  readonly groupCount: number;
  readonly strips: StripSplit;
  image: number;
  sequence: number;
  /** Time of the last computation or hold, by performance.now(). */
  updatedAt: number;
  /** The share of the last run in the stored range, from 0 to 1. */
  mixFactor: number;
}

export class ColorRanges {
  readonly results: Surface;
  private readonly device: GlDevice;
  private readonly linkedPrograms: readonly LinkedProgram[];
  private readonly slots = new Map<Value, RangeSlot>();
  private readonly uniformBuffer: WebGLBuffer;
  private readonly combineEntries: WebGLTexture;
  private readonly scratch: Surface;
  /** The previous ranges, from which slow ranges start. */
  private readonly previousRanges: WebGLTexture;
  private prepared: PreparedRanges | undefined;

  private constructor(device: GlDevice, values: Iterable<Value>, linked: readonly LinkedProgram[]) {
    this.device = device;
    this.linkedPrograms = linked;
    // Modules and outputs share their last layer's texture, and so have one slot.
    const same = new Map<string, RangeSlot>();
    let texels = 0;
    for (const value of values) {
      const name = `${value.texture} ${value.layout_words.join()} ${value.nchw.join()}`;
      let slot = same.get(name);
      if (slot === undefined) {
        const groupCount = channelGroupCount(value);
        const last = texels + groupCount;
        const layerTexel = [last % RANGE_COLUMNS, Math.floor(last / RANGE_COLUMNS)] as const;
        const strips = splitValueIntoStrips(value);
        slot = {
          firstTexel: texels,
          layerTexel,
          groupCount,
          strips,
          image: -1,
          sequence: -1,
          updatedAt: 0,
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
    const most = Math.max(1, ...needed, Math.min(MAX_SCRATCH_ROWS, all));
    this.results = createSurface(device, RANGE_COLUMNS, rows, RESULT_LAYERS);
    this.scratch = createSurface(device, RANGE_COLUMNS, most, RESULT_LAYERS);
    this.previousRanges = device.resources.createTexture(this.results);
    this.uniformBuffer = device.resources.createBuffer(0, "DYNAMIC_DRAW");
    this.combineEntries = device.resources.createTexture({ ...this.results, layers: 1 }, "rgba32f");
  }

  static async create(device: GlDevice, values: readonly Value[]): Promise<ColorRanges> {
    const { generation } = device;
    const reshaped = values.some(isReshaped) ? [RESHAPED_MIN_MAX_KERNEL] : [];
    const linked = await device.programs.acquire([COMBINE_KERNEL, MIN_MAX_KERNEL, ...reshaped]);
    device.check(generation);
    return new ColorRanges(device, values, linked);
  }

  /** Replace these ranges by ranges for other values. */
  recreateForValues(values: Iterable<Value>): ColorRanges {
    this.free();
    return new ColorRanges(this.device, values, this.linkedPrograms);
  }

  /** Draw one texel with each program: this builds the pipelines before a transfer has to wait for them. */
  warmUp(): void {
    const passes = this.linkedPrograms.map((linked): UtilityPass => {
      const inputs = new Array<WebGLTexture>(VALUES_PER_PASS).fill(this.combineEntries);
      return { linked, inputs, target: this.results, viewport: [0, 0, 1, 1], uniforms: {} };
    });
    uploadPassUniforms(this.device, this.uniformBuffer, passes);
    drawPasses(this.device, this.uniformBuffer, passes);
  }

  get bytes(): number {
    const { results, scratch } = this;
    return 2 * results.bytes + scratch.bytes + results.width * results.height * 16;
  }

  /**
   * Compute the missing ranges of the wanted values for run `sequence`; return the number of elements reduced. A range
   * that an earlier run has shown for the same image changes slowly or is held, depending on `smoothing`.
   */
  update(
    requestedRanges: readonly { value: Value; image: number; texture: WebGLTexture }[],
    sequence: number,
    smoothing: RangeSmoothing,
  ): number {
    const now = performance.now();
    const some = requestedRanges.flatMap(({ value, image, texture }) => {
      const slot = this.slots.get(value);
      if (slot === undefined) return [];
      const since = now - slot.updatedAt;
      const isSame = slot.image === image;
      if (isSame && smoothing === "held") slot.updatedAt = now;
      const isDone = slot.sequence === sequence && (smoothing === "slow" || slot.mixFactor === 1);
      if (isSame && (smoothing === "held" || isDone)) return [];
      const mixFactor = isSame && smoothing === "slow" ? 1 - Math.exp(-since / SMOOTHING_MS) : 1;
      Object.assign(slot, { image, sequence, updatedAt: now, mixFactor });
      return [{ value, slot, image, texture, mixFactor }];
    });
    if (some.length === 0) return 0;
    // Group the jobs by program: a pass reduces consecutive values.
    const jobs = [
      ...some.filter(({ value }) => !isReshaped(value)),
      ...some.filter(({ value }) => isReshaped(value)),
    ];
    const { passes } = this.preparePasses(jobs);
    const { previousRanges, device, results } = this;
    const isSlow = jobs.some(({ mixFactor }) => mixFactor < 1);
    if (isSlow) device.resources.copyTexture(results.framebuffer, previousRanges, results);
    drawPasses(this.device, this.uniformBuffer, passes);
    return jobs.reduce((sum, { value }) => sum + elementsPerImage(value), 0);
  }

  locate(value: Value): RangeTexel {
    const slot = this.slots.get(value);
    if (slot === undefined) throw new Error(`no ranges of ${JSON.stringify(value.key)}`);
    return slot;
  }

  /**
   * Read the limits of a value's colours as currently drawn, of one channel or of all; returns a function, as
   * `startReadback` does.
   */
  readLimits(
    value: Value,
    channel: number | undefined,
  ): () => readonly [low: number, high: number] {
    const { firstTexel, layerTexel } = this.locate(value);
    const at = firstTexel + ((channel ?? 0) >> 2);
    const [x, y] =
      channel === undefined ? layerTexel : [at % RANGE_COLUMNS, Math.floor(at / RANGE_COLUMNS)];
    const { gl, state } = this.device;
    const read = startReadback(this.device, 8, () => {
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
    this.device.programs.release(this.linkedPrograms);
  }

  private free(): void {
    const { device } = this;
    for (const surface of [this.results, this.scratch]) freeSurface(device, surface);
    for (const one of [this.combineEntries, this.previousRanges]) device.resources.freeTexture(one);
    device.resources.freeBuffer(this.uniformBuffer);
  }

  /** Usually the jobs are the same as last time, with other values, so the passes are reused. */
  private preparePasses(jobs: readonly RangeJob[]): PreparedRanges {
    const { prepared } = this;
    if (prepared !== undefined && sameJobs(prepared.jobs, jobs)) return prepared;
    this.prepared = undefined;
    const batches = splitIntoBatches(jobs);
    this.uploadEntries(batches);
    const passes = batches.flatMap(({ placed }, batch) => [
      ...[false, true].flatMap((reshaped) => {
        const some = placed.filter(({ job }) => isReshaped(job.value) === reshaped);
        return this.createReductionPasses(some, this.scratch, reshaped ? 2 : 1);
      }),
      ...this.createCombiningPasses(placed, this.scratch, batch),
    ]);
    uploadPassUniforms(this.device, this.uniformBuffer, passes);
    this.prepared = { jobs, passes };
    return this.prepared;
  }

  /** The passes that reduce all strips of a batch's values, a few values per pass. */
  private createReductionPasses(
    placed: readonly PlacedJob[],
    target: Surface,
    programIndex: number,
  ): UtilityPass[] {
    const linked = this.linkedPrograms[programIndex];
    if (linked === undefined) return [];
    const starts = placed.flatMap((_, k) => (k % VALUES_PER_PASS === 0 ? [k] : []));
    return starts.map((start) => {
      const some = placed.slice(start, start + VALUES_PER_PASS);
      const row = some[0]?.firstScratchRow ?? 0;
      const end = Math.max(...some.map((one) => one.firstScratchRow + scratchRows(one.job.slot)));
      const width = Math.max(...some.map(({ job }) => partialResultCount(job.slot)));
      const works = some.map(({ job: { slot, image } }) => {
        return [
          image,
          slot.strips.stripCount,
          slot.strips.linesPerStrip,
          partialResultCount(slot),
        ] as const;
      });
      const rows = padToPass(
        some.map((one) => one.firstScratchRow),
        UNDRAWN_ROW,
      );
      const inputs = some.map(({ job }) => job.texture);
      return {
        linked,
        inputs: padToPass(inputs, inputs[0] as WebGLTexture), // a unit must not hold the target
        target,
        viewport: [0, row, Math.min(RANGE_COLUMNS, width), end - row],
        uniforms: {
          displayShapes: some.map(({ job }) => job.value.nchw),
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
  private createCombiningPasses(
    placed: readonly PlacedJob[],
    partialRanges: Surface,
    batchIndex: number,
  ): UtilityPass[] {
    const [linked] = this.linkedPrograms;
    if (linked === undefined) return [];
    const share = placed[0]?.job.mixFactor ?? 1;
    const inputs = [partialRanges.texture, this.combineEntries, this.previousRanges];
    const first = Math.min(...placed.map(({ job }) => job.slot.firstTexel));
    const last = Math.max(...placed.map(({ job }) => job.slot.firstTexel + job.slot.groupCount));
    const bottom = Math.floor(first / RANGE_COLUMNS);
    const rows = Math.floor(last / RANGE_COLUMNS) + 1 - bottom;
    const viewport = [0, bottom, RANGE_COLUMNS, rows] as const;
    const slotWords = COMBINE_SLOTS.fill({ batch: batchIndex, width: RANGE_COLUMNS, share });
    return [{ linked, inputs, target: this.results, viewport, uniforms: { slotWords } }];
  }

  /** Upload the list that combine.glsl reads: an entry for each texel of the results. */
  private uploadEntries(batches: readonly RangeJobBatch[]): void {
    const { device, combineEntries, results } = this;
    const data = new Float32Array(results.width * results.height * 4).fill(-1);
    for (const [batch, { placed }] of batches.entries()) {
      for (const { job, firstScratchRow } of placed) {
        const { firstTexel, groupCount, strips } = job.slot;
        const from = firstScratchRow * RANGE_COLUMNS;
        for (let k = 0; k < groupCount; k++) {
          data.set([from + k * strips.stripCount, strips.stripCount, batch], (firstTexel + k) * 4);
        }
        data.set([from, partialResultCount(job.slot), batch], (firstTexel + groupCount) * 4);
      }
    }
    for (const _ of device.resources.upload(combineEntries, { ...results, layers: 1 }, data));
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
  readonly firstScratchRow: number;
}

interface RangeJobBatch {
  readonly placed: PlacedJob[];
  scratchRowCount: number;
}

/** Split jobs into batches that fit the scratch texture, with the rows that they take. */
function splitIntoBatches(jobs: readonly RangeJob[]): RangeJobBatch[] {
  const batches: RangeJobBatch[] = [];
  let batch: RangeJobBatch = { placed: [], scratchRowCount: MAX_SCRATCH_ROWS };
  for (const job of jobs) {
    const rows = scratchRows(job.slot);
    if (
      batch.scratchRowCount + rows > MAX_SCRATCH_ROWS ||
      batch.placed[0]?.job.mixFactor !== job.mixFactor
    ) {
      batch = { placed: [], scratchRowCount: 0 };
      batches.push(batch);
    }
    batch.placed.push({ job, firstScratchRow: batch.scratchRowCount });
    batch.scratchRowCount += rows;
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
function padToPass<T>(items: readonly T[], filler: T): T[] {
  return Array.from({ length: VALUES_PER_PASS }, (_, k) => items[k] ?? filler);
}

/** The number of a value's partial results. */
function partialResultCount({ groupCount, strips }: RangeSlot): number {
  return groupCount * strips.stripCount;
}

function scratchRows(slot: RangeSlot): number {
  return Math.ceil(partialResultCount(slot) / RANGE_COLUMNS);
}

/** The number of elements of one image of a value. */
export function elementsPerImage({ nchw }: Value): number {
  const [, c, h, w] = nchw;
  return c * h * w;
}
