// Slicing of long runs and polling for results, so that neither the page nor the graphics driver is blocked for long.
import type { Pass } from "./schema.ts";

/** Milliseconds: runs predicted to take longer than `maxUnslicedMs` are submitted in slices of about `sliceMs`. */
export interface SliceBudget {
  readonly maxUnslicedMs: number;
  readonly sliceMs: number;
}

/** While the page is visible: two slices are in flight, so the device stays busy across an animation frame. */
export const SMOOTH_SLICE_BUDGET: SliceBudget = { maxUnslicedMs: 50, sliceMs: 20 };
/** While a caller is blocked: each cut costs time, up to a tenth of a run, and 0.1 s feels immediate. */
export const URGENT_SLICE_BUDGET: SliceBudget = { maxUnslicedMs: 100, sliceMs: 60 };
/** Drivers build a pipeline when a program first draws: measured 10 to 100 ms here. */
const FIRST_DRAW_MS = 40;
/** Duration of a pass without work, measured. */
const MIN_PASS_MS = 0.05;
const POLL_MS = 4;
/** Side of llvmpipe's tiles in pixels. */
const CPU_RENDERER_TILE_SIDE = 64;
/** Timeout for an animation frame, which never arrives if the page is hidden meanwhile. */
const MAX_FRAME_WAIT_MS = 100;

export function isPageHidden(): boolean {
  return typeof document !== "undefined" && document.hidden;
}

/** Wait for one poll: until the next animation frame, or for a timer if the run is urgent or no frame will come. */
export function waitForPoll(urgent: boolean): Promise<void> {
  if (urgent || typeof requestAnimationFrame === "undefined" || isPageHidden()) {
    return new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return new Promise((resolve) => {
    const done = () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      resolve();
    };
    const frame = requestAnimationFrame(done);
    const timer = setTimeout(done, MAX_FRAME_WAIT_MS);
  });
}

/** x, y, width and height in texels. */
export type Box = readonly [number, number, number, number];

/** A pass, or a band of one in whole texels: texels are independent, so bands give bit-identical results. */
export interface PassDraw {
  readonly pass: Pass;
  readonly band?: Box;
}

/** The predicted milliseconds of each pass: its share of `totalMs`, by cost. */
export function predictPassTimes(passes: readonly Pass[], totalMs: number): number[] {
  const sum = passes.reduce((s, pass) => s + pass.cost, 0);
  return passes.map((pass) =>
    Math.max(MIN_PASS_MS, sum > 0 ? (totalMs * pass.cost) / sum : totalMs / passes.length),
  );
}

/** Split passes into slices, in order; a run that is short as a whole is one slice. */
export function splitRun(
  passes: readonly Pass[],
  passMs: readonly number[],
  isFirstDraw: (pass: Pass) => boolean,
  budget: SliceBudget,
): PassDraw[][] {
  const seen = new Set<number>();
  const costs = passes.map((pass, k) => {
    const first = isFirstDraw(pass) && !seen.has(pass.program);
    seen.add(pass.program);
    return (passMs[k] ?? 0) + (first ? FIRST_DRAW_MS : 0);
  });
  if (costs.reduce((a, b) => a + b, 0) <= budget.maxUnslicedMs)
    return [passes.map((pass) => ({ pass }))];
  const slices: PassDraw[][] = [];
  let slice: PassDraw[] = [];
  let filled = 0;
  for (const [k, pass] of passes.entries()) {
    const parts = splitPass(pass, Math.ceil((passMs[k] ?? 0) / budget.sliceMs));
    const cost = (costs[k] ?? 0) / parts.length;
    for (const part of parts) {
      if (slice.length > 0 && filled + cost > budget.sliceMs) {
        slices.push(slice);
        slice = [];
        filled = 0;
      }
      slice.push(part);
      filled += cost;
    }
  }
  slices.push(slice);
  return slices;
}

/**
 * Split a pass into at least `bandCount` bands across the longer side of its viewport; together they cover it exactly.
 * CPU renderers distribute square tiles to their threads: a band that cuts a tile, or has only one, leaves threads
 * idle.
 */
export function splitPass(pass: Pass, bandCount: number): PassDraw[] {
  const [width, height] = pass.viewport;
  const long = Math.max(width, height);
  const parts = Math.min(bandCount, long);
  if (parts <= 1) return [{ pass }];
  const unit = [2 * CPU_RENDERER_TILE_SIDE, CPU_RENDERER_TILE_SIDE].find(
    (size) => size * parts <= long,
  );
  const size = unit === undefined ? long / parts : Math.floor(long / parts / unit) * unit;
  const number = unit === undefined ? parts : Math.ceil(long / size);
  const cuts = (k: number) => (k < number ? Math.floor(k * size) : long);
  return Array.from({ length: number }, (_, k) => {
    const from = cuts(k);
    const room = cuts(k + 1) - from;
    return { pass, band: width >= height ? [from, 0, room, height] : [0, from, width, room] };
  });
}

/** Limits the work on the device at one time, so that the page is never blocked for all of it. */
export class Semaphore {
  private readonly capacity: number;
  private inUse = 0;
  private waiting: (() => void)[] = [];

  /** Jobs may run together up to a total size of `capacity`; a larger job runs alone. */
  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Run `work` of this size as soon as the running jobs leave room for it. */
  async run<T>(size: number, work: () => Promise<T>): Promise<T> {
    while (this.inUse > 0 && this.inUse + size > this.capacity) {
      await new Promise<void>((go) => this.waiting.push(go));
    }
    this.inUse += size;
    try {
      return await work();
    } finally {
      this.inUse -= size;
      for (const go of this.waiting.splice(0)) go();
    }
  }
}
