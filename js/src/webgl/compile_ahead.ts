// A Plan's programs, compiled while its weights are still on their way.

import { checkPlan } from "../plan/check_plan.ts";
import type { ProgramSource } from "../plan/program_source.ts";
import type { PlanHeader } from "../plan/schema.ts";
import { displayPrograms } from "./canvas_display.ts";
import type { GlDevice } from "./gl_device.ts";
import { COMBINE, MIN_MAX } from "./kernels.ts";

/**
 * Compiles what a session of this Plan will ask for first; undone by calling the result, once that session has them.
 * Throws at once what is wrong with the Plan.
 */
export function compileAhead(
  device: GlDevice,
  plan: PlanHeader,
  uniforms: Uint8Array,
): Promise<() => void> {
  checkPlan(plan, uniforms.byteLength, device.capabilities.target);
  device.check();
  return acquirePrograms(device, [...plan.programs, ...displayPrograms(plan), COMBINE, MIN_MAX]);
}

async function acquirePrograms(
  device: GlDevice,
  sources: readonly ProgramSource[],
): Promise<() => void> {
  const { generation, programs } = device;
  await device.readSpeed(); // how they read textures stands in their text
  device.check(generation);
  const linked = await programs.acquire(sources);
  return () => {
    if (device.generation === generation) programs.release(linked);
  };
}
