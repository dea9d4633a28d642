// Reads values back from the GPU: a whole value, or parts of it.

import { DIRECT_READ_PROGRAM } from "../plan/derived_values.ts";
import { PlanError, type TexelSpan } from "../plan/runtime.ts";
import type { Value } from "../plan/schema.ts";
import { readWhenIdle, waitForFence } from "./gpu_clock.ts";
import type { Runner } from "./runner.ts";

/** Read a value's or parameter's elements in row-major order; runs outdated sections first. */
export async function readValue(runner: Runner, key: string): Promise<Float32Array> {
  const value = runner.findValue(key);
  await warmUp(runner, value);
  return runner.whenFresh(value, (objects) => {
    const now = runner.findValue(key); // an edit may have moved it to another texture
    const step = runner.readbackPass(now);
    if (step.program === DIRECT_READ_PROGRAM)
      return objects.read(step).filter((_, k) => k % 4 === 0);
    objects.draw(step);
    const data = objects.read(step);
    return data.length === now.readback.count ? data : data.slice(0, now.readback.count);
  });
}

/** Read bands of the texels that a value's readback pass draws, concatenated. */
export async function sampleValue(
  runner: Runner,
  key: string,
  spans: readonly TexelSpan[],
): Promise<Float32Array<ArrayBuffer>> {
  const value = runner.findValue(key);
  const [width, height] = value.readback.draw_pass.viewport;
  const inside = spans.every(
    ([x, y, w, h = 1]) => w >= 1 && h >= 1 && x + w <= width && y + h <= height,
  );
  if (!inside) throw new PlanError(`there are ${width} × ${height} texels of ${key} to sample`);
  await warmUp(runner, value);
  return runner.whenFresh(value, (objects) => {
    // Always read, even if a new input makes the data useless: reading also frees its buffer.
    const read = objects.sample(runner.readbackPass(runner.findValue(key)), spans);
    const data = readWhenIdle(runner.device, read);
    data.catch(() => undefined);
    return data;
  });
}

/** A program's first draw builds its pipeline: a read right after it would block the page for that time. */
async function warmUp(runner: Runner, { readback }: Value): Promise<void> {
  const objects = await runner.whenBuilt();
  if (objects.programs[readback.draw_pass.program]?.hasDrawn !== false) return;
  objects.draw(readback.draw_pass, [0, 0, 1, 1]);
  await waitForFence(runner.device);
}
