// Builds programs' pipelines before their results are needed.
import { type Texture, UNIFORM_BYTES } from "../plan/schema.ts";
import type { GlDevice } from "./gl_device.ts";
import { waitForFence } from "./gpu_clock.ts";
import { type LinkedProgram, PASS_BINDING } from "./program_cache.ts";

/** Draw one texel with each program that has not drawn yet, into a texture like its target. */
export async function warmUpPrograms(
  device: GlDevice,
  programs: readonly (readonly [LinkedProgram, Texture])[],
): Promise<void> {
  const { gl, resources, state } = device;
  const fresh = programs.filter(([linked]) => !linked.hasDrawn);
  if (fresh.length === 0) return;
  const empty = resources.createTexture({ width: 1, height: 1, layers: 1 }, "rgba32f");
  const buffer = resources.createBuffer(UNIFORM_BYTES, "DYNAMIC_DRAW");
  for (const [linked, { layers, format }] of fresh) {
    const target = resources.createTexture({ width: 1, height: 1, layers }, format);
    const framebuffer = resources.createFramebuffer(target, layers, format);
    state.useProgram(linked.program);
    state.bindTextures([empty, empty, empty, empty]);
    state.bindFramebuffer(framebuffer);
    state.setViewport(0, 0, 1, 1);
    state.setScissor(undefined);
    state.bindUniforms(PASS_BINDING, buffer, 0, UNIFORM_BYTES);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    linked.hasDrawn = true;
    resources.freeFramebuffer(framebuffer);
    resources.freeTexture(target);
  }
  resources.freeTexture(empty);
  resources.freeBuffer(buffer);
  await waitForFence(device);
}
