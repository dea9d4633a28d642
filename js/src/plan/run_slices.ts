// When to wait and how to cut a run, so that neither the page nor the graphics driver waits long.
import type { Pass } from "./schema.ts";

/** Milliseconds: runs predicted to take longer than `long` are submitted in slices of about `slice`. */
export interface SliceBudget {
  readonly maxUnslicedMs: number;
  readonly sliceMs: number;
}

/** Beside a page that is looked at: two slices are in flight, so the device is busy over a frame. */
export const FLUENT_BUDGET: SliceBudget = { maxUnslicedMs: 50, sliceMs: 20 };
/** For somebody who waits: every cut costs time, up to a tenth of a run, and 0.1 s passes for at once. */
export const URGENT_BUDGET: SliceBudget = { maxUnslicedMs: 100, sliceMs: 60 };
/** Drivers build a pipeline when a program first draws: measured 10 to 100 ms here. */
const FIRST_DRAW_MS = 40;
/** A pass without work, measured. */
const MIN_PASS_MS = 0.05;
const POLL_MS = 4;
/** Pixels along the squares of llvmpipe. */
const TILE_SIDE = 64;
/** An animation frame may never come: the page can be hidden while one waits for it. */
const MAX_FRAME_WAIT_MS = 100;

export function isPageHidden(): boolean {
  return typeof document !== "undefined" && document.hidden;
}

/** One poll's wait: an animation frame, or a timer when somebody waits or no frame will come. */
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

/** A pass, or an integer band of one: texels are independent, so bands give the same bits. */
export interface PassDraw {
  readonly pass: Pass;
  readonly band?: Box;
}

/** Milliseconds that each pass will take, as its share of `total`. */
export function predictPassTimes(passes: readonly Pass[], total: number): number[] {
  const sum = passes.reduce((s, pass) => s + pass.cost, 0);
  return passes.map((pass) =>
    Math.max(MIN_PASS_MS, sum > 0 ? (total * pass.cost) / sum : total / passes.length),
  );
}

/** The passes in order, in slices; one slice when all of it is short. */
export function splitRun(
  passes: readonly Pass[],
  ms: readonly number[],
  isFirst: (pass: Pass) => boolean,
  pace: SliceBudget,
): PassDraw[][] {
  const seen = new Set<number>();
  const costs = passes.map((pass, k) => {
    const first = isFirst(pass) && !seen.has(pass.program);
    seen.add(pass.program);
    return (ms[k] ?? 0) + (first ? FIRST_DRAW_MS : 0);
  });
  if (costs.reduce((a, b) => a + b, 0) <= pace.maxUnslicedMs)
    return [passes.map((pass) => ({ pass }))];
  const slices: PassDraw[][] = [];
  let slice: PassDraw[] = [];
  let filled = 0;
  for (const [k, pass] of passes.entries()) {
    const parts = splitPass(pass, Math.ceil((ms[k] ?? 0) / pace.sliceMs));
    const cost = (costs[k] ?? 0) / parts.length;
    for (const part of parts) {
      if (slice.length > 0 && filled + cost > pace.sliceMs) {
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
 * At least `count` bands across the longer side of the pass's viewport, together exactly the viewport. Renderers on a
 * processor deal squares of pixels to their threads: a band that cuts one, or has one alone, leaves threads without work.
 */
export function splitPass(pass: Pass, count: number): PassDraw[] {
  const [width, height] = pass.viewport;
  const long = Math.max(width, height);
  const parts = Math.min(count, long);
  if (parts <= 1) return [{ pass }];
  const unit = [2 * TILE_SIDE, TILE_SIDE].find((size) => size * parts <= long);
  const size = unit === undefined ? long / parts : Math.floor(long / parts / unit) * unit;
  const number = unit === undefined ? parts : Math.ceil(long / size);
  const cuts = (k: number) => (k < number ? Math.floor(k * size) : long);
  return Array.from({ length: number }, (_, k) => {
    const from = cuts(k);
    const room = cuts(k + 1) - from;
    return { pass, band: width >= height ? [from, 0, room, height] : [0, from, width, room] };
  });
}

/** Work on the device in turn, so that the page is never held for all of it. */
export class Semaphore {
  private readonly capacity: number;
  private inUse = 0;
  private waiting: (() => void)[] = [];

  /** Works of `most` in size together may be under way; a larger one alone. */
  constructor(most: number) {
    this.capacity = most;
  }

  /** Begins `work` of some size when what is under way leaves room for it. */
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
