// Measures the time of submitted work, with the best clock that this browser has.

import { isPageHidden, waitForPoll } from "../plan/run_slices.ts";
import type { RunInfo } from "../plan/runtime.ts";
import type { GlContext } from "./gl_context.ts";

/** EXT_disjoint_timer_query_webgl2, which is missing in TypeScript's DOM types. */
interface TimerQueryExtension {
  readonly TIME_ELAPSED_EXT: number;
  readonly GPU_DISJOINT_EXT: number;
}

/** Work between `begin` and `end`: a fence after it, and a timer query around it if available. */
export interface TimingMark {
  readonly start: number;
  readonly fence: WebGLSync | null;
  readonly query: WebGLQuery | null;
}

export type MeasuredTime = Pick<RunInfo, "ms" | "clock">;

export class GpuClock {
  private readonly gl: WebGL2RenderingContext;
  private readonly timerExtension: TimerQueryExtension | null;
  private query: WebGLQuery | null = null;
  private start = 0;

  /** A software renderer's timer query omits the time of its threads, so the fence is more accurate there. */
  constructor(gl: WebGL2RenderingContext, software: boolean) {
    this.gl = gl;
    this.timerExtension = software ? null : gl.getExtension("EXT_disjoint_timer_query_webgl2");
  }

  get hasTimer(): boolean {
    return this.timerExtension !== null;
  }

  begin(): void {
    this.start = performance.now();
    if (this.timerExtension === null) return;
    this.query = this.gl.createQuery();
    this.gl.beginQuery(this.timerExtension.TIME_ELAPSED_EXT, this.query);
  }

  end(): TimingMark {
    const { gl, query, start } = this;
    if (this.timerExtension !== null) gl.endQuery(this.timerExtension.TIME_ELAPSED_EXT);
    this.query = null;
    const fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    return { start, query, fence };
  }

  /** Resolve when the work is done; `throwIfCancelled` throws if the wait is no longer needed. */
  async waitFor(
    mark: TimingMark,
    isUrgent: () => boolean,
    throwIfCancelled: () => void,
  ): Promise<void> {
    const { gl } = this;
    throwIfCancelled();
    while (mark.fence && gl.getSyncParameter(mark.fence, gl.SYNC_STATUS) !== gl.SIGNALED) {
      await waitForPoll(isUrgent() || isPageHidden());
      throwIfCancelled();
    }
    gl.deleteSync(mark.fence);
  }

  /** Free a mark whose work is known to be done. */
  discard(mark: TimingMark | undefined): void {
    this.gl.deleteSync(mark?.fence ?? null);
  }

  /** Milliseconds of all marked work, once it is done. */
  async elapsed(
    marks: readonly TimingMark[],
    endedAt: number,
    throwIfCancelled: () => void,
  ): Promise<MeasuredTime> {
    const { gl, timerExtension } = this;
    const fence: MeasuredTime = { ms: endedAt - (marks[0]?.start ?? endedAt), clock: "fence" };
    if (timerExtension === null) return fence;
    let ns = 0;
    for (const { query } of marks) {
      if (query === null) continue;
      while (!gl.getQueryParameter(query, gl.QUERY_RESULT_AVAILABLE)) {
        await waitForPoll(true);
        throwIfCancelled();
      }
      ns += Number(gl.getQueryParameter(query, gl.QUERY_RESULT));
      gl.deleteQuery(query);
    }
    const disjoint = gl.getParameter(timerExtension.GPU_DISJOINT_EXT);
    return disjoint || ns === 0 ? fence : { ms: ns / 1e6, clock: "gpu timer" };
  }
}

/** Resolve when the GPU has finished all work submitted so far, or the context is lost. */
export async function waitForFence(device: GlContext): Promise<void> {
  const { generation } = device;
  const clock = new GpuClock(device.gl, true);
  const check = () => device.check(generation);
  await clock.waitFor(clock.end(), () => true, check).catch(() => undefined);
}

/** The most waits for work that was submitted meanwhile: with back-to-back runs the GPU is never idle. */
const MAX_IDLE_WAITS = 3;

/** Resolve when the GPU has finished all work submitted so far, and work submitted meanwhile. */
export async function waitForIdle(device: GlContext): Promise<void> {
  for (let k = 0, workCount = -1; k < MAX_IDLE_WAITS && workCount !== device.state.workCount; k++) {
    ({ workCount } = device.state);
    await waitForFence(device);
  }
}

/** Call `read` when the GPU has finished all submitted work and return its result; throws if an allocation failed. */
export async function readWhenIdle<T>(device: GlContext, read: () => T): Promise<T> {
  const { generation, resources } = device;
  const { errorCount } = resources;
  await waitForIdle(device);
  const found = read();
  await resources.checkErrorsSince(errorCount, () => waitForIdle(device));
  device.check(generation);
  return found;
}
