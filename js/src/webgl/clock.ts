// Measures how long submitted work takes, with the best clock this browser has.

import type { RunInfo } from "../plan/runtime.ts";
import { hidden, pause } from "../plan/schedule.ts";
import type { GlContext } from "./gl_context.ts";

/** EXT_disjoint_timer_query_webgl2, which TypeScript's DOM types leave out. */
interface TimerQuery {
  readonly TIME_ELAPSED_EXT: number;
  readonly GPU_DISJOINT_EXT: number;
}

/** Work between `begin` and `end`: a fence behind it, and a timer query around it where there is one. */
export interface Mark {
  readonly start: number;
  readonly fence: WebGLSync | null;
  readonly query: WebGLQuery | null;
}

export type Measured = Pick<RunInfo, "ms" | "clock">;

export class Clock {
  private readonly gl: WebGL2RenderingContext;
  private readonly timer: TimerQuery | null;
  private query: WebGLQuery | null = null;
  private start = 0;

  /** A software renderer's timer query leaves out what its threads do, so there the fence tells more. */
  constructor(gl: WebGL2RenderingContext, software: boolean) {
    this.gl = gl;
    this.timer = software ? null : gl.getExtension("EXT_disjoint_timer_query_webgl2");
  }

  get hasTimer(): boolean {
    return this.timer !== null;
  }

  begin(): void {
    this.start = performance.now();
    if (this.timer === null) return;
    this.query = this.gl.createQuery();
    this.gl.beginQuery(this.timer.TIME_ELAPSED_EXT, this.query);
  }

  end(): Mark {
    const { gl, query, start } = this;
    if (this.timer !== null) gl.endQuery(this.timer.TIME_ELAPSED_EXT);
    this.query = null;
    const fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    return { start, query, fence };
  }

  /** Resolves when the work is done; `check` throws when waiting has become useless. */
  async passed(mark: Mark, urgent: () => boolean, check: () => void): Promise<void> {
    const { gl } = this;
    check();
    while (mark.fence && gl.getSyncParameter(mark.fence, gl.SYNC_STATUS) !== gl.SIGNALED) {
      await pause(urgent() || hidden());
      check();
    }
    gl.deleteSync(mark.fence);
  }

  /** The work is known to be done. */
  drop(mark: Mark | undefined): void {
    this.gl.deleteSync(mark?.fence ?? null);
  }

  /** Milliseconds of all the work marked, once it has passed. */
  async total(marks: readonly Mark[], end: number, check: () => void): Promise<Measured> {
    const { gl, timer } = this;
    const fence: Measured = { ms: end - (marks[0]?.start ?? end), clock: "fence" };
    if (timer === null) return fence;
    let ns = 0;
    for (const { query } of marks) {
      if (query === null) continue;
      while (!gl.getQueryParameter(query, gl.QUERY_RESULT_AVAILABLE)) {
        await pause(true);
        check();
      }
      ns += Number(gl.getQueryParameter(query, gl.QUERY_RESULT));
      gl.deleteQuery(query);
    }
    const disjoint = gl.getParameter(timer.GPU_DISJOINT_EXT);
    return disjoint || ns === 0 ? fence : { ms: ns / 1e6, clock: "gpu timer" };
  }
}

/** Resolves when the device has done what was asked of it so far, or never will. */
export async function finished(device: GlContext): Promise<void> {
  const { generation } = device;
  const clock = new Clock(device.gl, true);
  const check = () => device.check(generation);
  await clock.passed(clock.end(), () => true, check).catch(() => undefined);
}

/** So often what was asked later is let go first: where runs follow each other there is always something. */
const PATIENCE = 3;

/** Resolves when the device has done what was asked of it so far, and what was asked meanwhile. */
export async function calm(device: GlContext): Promise<void> {
  for (let k = 0, works = -1; k < PATIENCE && works !== device.state.works; k++) {
    ({ works } = device.state);
    await finished(device);
  }
}

/** What `read` finds when the device has done all that it was just asked; throws where that had no room. */
export async function whenDone<T>(device: GlContext, read: () => T): Promise<T> {
  const { generation, resources } = device;
  const { faults } = resources;
  await calm(device);
  const found = read();
  await resources.sound(faults, () => calm(device));
  device.check(generation);
  return found;
}
