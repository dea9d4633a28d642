// Builds programs' pipelines before anybody waits for what they draw.
import { type Texture, UNIFORM_BYTES } from "../plan/schema.ts";
import { finished } from "./clock.ts";
import type { GlDevice } from "./device.ts";
import { type Linked, PASS_BINDING } from "./programs.ts";

/** Draws a texel with each program that has not drawn yet, into a texture like the one it is to draw into. */
export async function warmed(
  device: GlDevice,
  programs: readonly (readonly [Linked, Texture])[],
): Promise<void> {
  const { gl, resources, state } = device;
  const fresh = programs.filter(([linked]) => !linked.drawn);
  if (fresh.length === 0) return;
  const empty = resources.texture({ width: 1, height: 1, layers: 1 }, "rgba32f");
  const buffer = resources.buffer(UNIFORM_BYTES, "DYNAMIC_DRAW");
  for (const [linked, { layers, format }] of fresh) {
    const target = resources.texture({ width: 1, height: 1, layers }, format);
    const framebuffer = resources.framebuffer(target, layers, format);
    state.use(linked.program);
    state.bind([empty, empty, empty, empty]);
    state.target(framebuffer);
    state.viewport(0, 0, 1, 1);
    state.scissor(undefined);
    state.uniforms(PASS_BINDING, buffer, 0, UNIFORM_BYTES);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    linked.drawn = true;
    resources.freeFramebuffer(framebuffer);
    resources.freeTexture(target);
  }
  resources.freeTexture(empty);
  resources.freeBuffer(buffer);
  await finished(device);
}
