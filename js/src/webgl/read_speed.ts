// Selects the faster of two ways to read a texture and measures its speed, once, unless the renderer is known.
import type { GlContext } from "./gl_context.ts";
import text from "./shaders/probe.glsl";

const PROBE_SIDE = 128;
const READS_PER_FRAGMENT = 32;
const REPEATS = 5;
/** The least speedup for texture(): it is 1.1 to 1.3 on SwiftShader; on a GPU the difference is only noise. */
const MIN_SPEEDUP = 1.07;
/** Direct3D's shader compiler unrolls or rejects loops around reads that need derivatives. */
const NO_DERIVATIVE_RENDERERS = /Direct3D/;

export interface TextureReadSpeed {
  /** texture() is faster than textureLod(). */
  readonly usesTextureCall: boolean;
  /** Texture reads per millisecond, the cost unit of a Plan's passes; a lower bound on fast GPUs. */
  readonly readsPerMs: number;
}

/** Software renderers have known speeds: on two cores, measuring would delay the first picture by 50 to 90 ms. */
const KNOWN_RENDERERS: readonly (readonly [RegExp, TextureReadSpeed])[] = [
  [/SwiftShader/, { usesTextureCall: true, readsPerMs: 300_000 }],
  [/llvmpipe/, { usesTextureCall: false, readsPerMs: 800_000 }],
];

export async function readSpeedOf(device: GlContext): Promise<TextureReadSpeed> {
  const known = KNOWN_RENDERERS.find(([name]) => name.test(device.capabilities.renderer));
  return known?.[1] ?? measureReadSpeed(device);
}

/** Exported for its test: the devices of tests are all known renderers. */
export async function measureReadSpeed(device: GlContext): Promise<TextureReadSpeed> {
  const { gl, state, resources, programs } = device;
  const source = `#define READS ${READS_PER_FRAGMENT}\n${text}`;
  const linked = await programs.acquire([
    { name: "probe textureLod", source, samplers: ["x0"] },
    { name: "probe texture", source: `#define READ_TEXTURE\n${source}`, samplers: ["x0"] },
  ]);
  const size = { width: PROBE_SIDE, height: PROBE_SIDE, layers: 1 };
  const [from, to] = [resources.createTexture(size), resources.createTexture(size)];
  const framebuffer = resources.createFramebuffer(to, 1);
  const pixel = new Float32Array(4);
  state.bindFramebuffer(framebuffer);
  state.bindTexture(0, from);
  state.setScissor(undefined);
  const time = (program: WebGLProgram, texels: number) => {
    const start = performance.now();
    state.useProgram(program);
    state.setViewport(0, 0, texels, texels);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.FLOAT, pixel);
    return performance.now() - start;
  };
  for (const { program } of linked) time(program, 1);
  const best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < REPEATS; round++) {
    for (const [k, { program }] of linked.entries()) {
      best[k] = Math.min(best[k] ?? 0, time(program, PROBE_SIDE));
    }
  }
  resources.freeFramebuffer(framebuffer);
  resources.freeTexture(from);
  resources.freeTexture(to);
  programs.release(linked);
  device.check();
  const [lod = 1, plain = 1] = best;
  const usesTextureCall =
    plain * MIN_SPEEDUP < lod && !NO_DERIVATIVE_RENDERERS.test(device.capabilities.renderer);
  const ms = Math.max(0.05, usesTextureCall ? plain : lod);
  return { usesTextureCall, readsPerMs: (PROBE_SIDE * PROBE_SIDE * READS_PER_FRAGMENT) / ms };
}
