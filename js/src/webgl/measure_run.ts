// How long a run takes, with nothing else on the device.

import type { RunInfo } from "../plan/runtime.ts";
import type { GlDevice } from "./gl_device.ts";
import { waitForIdle } from "./gpu_clock.ts";
import type { Runner } from "./runner.ts";

/** Of so many, the shortest: whatever else the machine does makes times longer only. */
const TRIES = 3;
/** Of fewer runs, when they have taken so long. */
const MAX_TRIES_MS = 250;

/** Times the last run once more: see Session. */
export async function measureRun(
  device: GlDevice,
  runner: Runner,
  most: number,
): Promise<RunInfo | undefined> {
  let best: RunInfo | undefined;
  for (let k = 0, spent = 0; k < TRIES && spent < MAX_TRIES_MS; k++) {
    await waitForIdle(device);
    const run = runner.expectedMs > most ? undefined : await runner.remeasure();
    if (run === undefined) return undefined;
    spent += run.ms;
    if (run.isExclusive && run.ms < (best?.ms ?? Number.POSITIVE_INFINITY)) best = run;
  }
  return best;
}
