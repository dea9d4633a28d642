// Compiles a Plan's programs while its weights are still loading.

import { checkPlan } from "../plan/check_plan.ts";
import type { ProgramSource } from "../plan/program_source.ts";
import type { PlanHeader } from "../plan/schema.ts";
import { displayPrograms } from "./canvas_display.ts";
import type { GlDevice } from "./gl_device.ts";
import { COMBINE_KERNEL, MIN_MAX_KERNEL } from "./kernels.ts";

/**
 * Compile the programs that a session of this Plan needs first. Call the returned function to release them, once the
 * session has acquired them. Throws synchronously if the Plan is invalid.
 */
export function compileAhead(
  device: GlDevice,
  plan: PlanHeader,
  uniforms: Uint8Array,
): Promise<() => void> {
  checkPlan(plan, uniforms.byteLength, device.capabilities.target);
  device.check();
  return acquirePrograms(device, [
    ...plan.programs,
    ...displayPrograms(plan),
    COMBINE_KERNEL,
    MIN_MAX_KERNEL,
  ]);
}

async function acquirePrograms(
  device: GlDevice,
  sources: readonly ProgramSource[],
): Promise<() => void> {
  const { generation, programs } = device;
  await device.getTextureReadSpeed(); // the shader text depends on how textures are read
  device.check(generation);
  const linked = await programs.acquire(sources);
  return () => {
    if (device.generation === generation) programs.release(linked);
  };
}
