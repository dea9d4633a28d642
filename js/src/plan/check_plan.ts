// Validates a Plan's header with the constraint table and against the device.

import { CONSTRAINTS, indexHeader } from "./constraints.ts";
import { findBrokenDependency } from "./dependencies.ts";
import { PlanError } from "./runtime.ts";
import { type PlanHeader, type Target, TEXEL_BYTES, type Texture } from "./schema.ts";

/** The most that a Plan may request; a page with less memory fails at allocation. */
const MAX_TOTAL_TEXTURE_BYTES = 4 * 2 ** 30;

/** The bytes of these textures on the device. */
export function textureBytes(textures: readonly Texture[]): number {
  const bytes = textures.map((t) => t.width * t.height * t.layers * TEXEL_BYTES[t.format]);
  return bytes.reduce((sum, one) => sum + one, 0);
}

/** Throw PlanError if a number in the Plan is out of range, or if `target` is too small. */
export function checkPlan(plan: PlanHeader, uniformBytes: number, target?: Target): void {
  const problem = firstProblem(plan);
  if (problem !== undefined) throw new PlanError(`damaged Plan: ${problem}`);
  if (plan.uniform_bytes !== uniformBytes) {
    throw new PlanError(
      `damaged Plan: ${uniformBytes} bytes of uniforms, not ${plan.uniform_bytes}`,
    );
  }
  checkTargetLimits(plan, target);
}

/** The message of a header's first problem; undefined if it is valid. */
export function firstProblem(plan: PlanHeader): string | undefined {
  const facts = indexHeader(plan);
  for (const constraint of CONSTRAINTS) {
    const problem = constraint(facts);
    if (problem !== undefined) return problem;
  }
  return findBrokenDependency(plan);
}

function checkTargetLimits({ textures, programs }: PlanHeader, target?: Target): void {
  const fit = (asked: number, most: number | undefined, what: string) => {
    if (most !== undefined && asked > most) {
      throw new PlanError(
        `this device is too small for the Plan: ${what} ${asked} of at most ${most}`,
      );
    }
  };
  for (const { width, height, layers } of textures) {
    fit(Math.max(width, height), target?.max_texture_size, "texture side");
    fit(layers, target?.max_array_layers, "texture layers");
  }
  fit(textureBytes(textures), MAX_TOTAL_TEXTURE_BYTES, "bytes of textures");
  for (const { targets, samplers } of programs) {
    fit(targets, target?.max_draw_buffers, "render targets");
    fit(samplers.length, target?.max_texture_units, "texture units");
  }
}
