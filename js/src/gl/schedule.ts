// When to wait and how to cut a run, so that neither the page nor the graphics driver waits long.
import type { Pass } from "../plan.ts";

/** Runs predicted to take longer are submitted in slices. */
export const LONG_MS = 50;
/** What one slice is predicted to take; two are in flight, so the device is busy over a frame. */
export const SLICE_MS = 20;
/** Drivers build a pipeline when a program first draws: measured 10 to 100 ms here. */
const FIRST_DRAW_MS = 40;
/** A pass without work, measured. */
const PASS_MS = 0.05;
const TIMER_MS = 4;
/** An animation frame may never come: the page can be hidden while one waits for it. */
const FRAME_AT_MOST_MS = 100;

export function hidden(): boolean {
  return typeof document !== "undefined" && document.hidden;
}

/** One poll's wait: an animation frame, or a timer when somebody waits or no frame will come. */
export function pause(urgent: boolean): Promise<void> {
  if (urgent || typeof requestAnimationFrame === "undefined" || hidden()) {
    return new Promise((resolve) => setTimeout(resolve, TIMER_MS));
  }
  return new Promise((resolve) => {
    const done = () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      resolve();
    };
    const frame = requestAnimationFrame(done);
    const timer = setTimeout(done, FRAME_AT_MOST_MS);
  });
}

/** x, y, width and height in texels. */
export type Box = readonly [number, number, number, number];

/** A pass, or an integer band of one: texels are independent, so bands give the same bits. */
export interface Draw {
  readonly step: Pass;
  readonly band?: Box;
}

/** Milliseconds that each pass will take, as its share of `total`. */
export function predict(passes: readonly Pass[], total: number): number[] {
  const sum = passes.reduce((s, pass) => s + pass.cost, 0);
  return passes.map((pass) =>
    Math.max(PASS_MS, sum > 0 ? (total * pass.cost) / sum : total / passes.length),
  );
}

/** The passes in order, in slices of about SLICE_MS; one slice when all of it is short. */
export function cut(
  passes: readonly Pass[],
  ms: readonly number[],
  isFirst: (pass: Pass) => boolean,
): Draw[][] {
  const seen = new Set<number>();
  const costs = passes.map((pass, k) => {
    const first = isFirst(pass) && !seen.has(pass.program);
    seen.add(pass.program);
    return (ms[k] ?? 0) + (first ? FIRST_DRAW_MS : 0);
  });
  if (costs.reduce((a, b) => a + b, 0) <= LONG_MS) return [passes.map((step) => ({ step }))];
  const slices: Draw[][] = [];
  let slice: Draw[] = [];
  let filled = 0;
  for (const [k, step] of passes.entries()) {
    const parts = bands(step, Math.ceil((ms[k] ?? 0) / SLICE_MS));
    const cost = (costs[k] ?? 0) / parts.length;
    for (const part of parts) {
      if (slice.length > 0 && filled + cost > SLICE_MS) {
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

/** `count` bands across the longer side of the pass's viewport, together exactly the viewport. */
export function bands(step: Pass, count: number): Draw[] {
  const [width, height] = step.viewport;
  const long = Math.max(width, height);
  const parts = Math.min(count, long);
  if (parts <= 1) return [{ step }];
  return Array.from({ length: parts }, (_, k) => {
    const from = Math.floor((k * long) / parts);
    const size = Math.floor(((k + 1) * long) / parts) - from;
    return { step, band: width >= height ? [from, 0, size, height] : [0, from, width, size] };
  });
}
