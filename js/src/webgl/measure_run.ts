// Measures the time of a run, with no other work on the GPU.

import type { RunInfo } from "../plan/runtime.ts";
import type { GlDevice } from "./gl_device.ts";
import { waitForIdle } from "./gpu_clock.ts";
import type { Runner } from "./runner.ts";

/** The number of runs; the shortest counts, since other load on the machine only adds time. */
const MAX_RUNS = 3;
/** Stop earlier once the runs have taken this long. */
const MAX_TOTAL_MS = 250;

/** Time the last run once more: see Session. */
export async function measureRun(
  device: GlDevice,
  runner: Runner,
  maxMs: number,
): Promise<RunInfo | undefined> {
  let best: RunInfo | undefined;
  for (let k = 0, spent = 0; k < MAX_RUNS && spent < MAX_TOTAL_MS; k++) {
    await waitForIdle(device);
    const run = runner.expectedRunMs > maxMs ? undefined : await runner.remeasure();
    if (run === undefined) return undefined;
    spent += run.ms;
    if (run.isExclusive && run.ms < (best?.ms ?? Number.POSITIVE_INFINITY)) best = run;
  }
  return best;
}
