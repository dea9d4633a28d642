// The faster of two ways to read a texture, and how fast: timed once on a device that is not known.
import type { GlContext } from "./gl_context.ts";
import text from "./shaders/probe.glsl";

const SIZE = 128;
const READS = 32;
const ROUNDS = 5;
/** texture() must win by this much: it is 1.1 to 1.3 on SwiftShader, and on a GPU only noise differs. */
const CLEARLY = 1.07;
/** Its shader compiler unrolls loops around reads that need derivatives, or refuses them. */
const NO_DERIVATIVES = /Direct3D/;

export interface Reads {
  /** texture() is faster than textureLod(). */
  readonly readTexture: boolean;
  /** Texture reads a millisecond, the cost unit of a Plan's passes; a lower bound on fast GPUs. */
  readonly perMs: number;
}

/** Processors that draw are known: on two cores the question itself costs 50 to 90 ms of a first picture. */
const KNOWN: readonly (readonly [RegExp, Reads])[] = [
  [/SwiftShader/, { readTexture: true, perMs: 300_000 }],
  [/llvmpipe/, { readTexture: false, perMs: 800_000 }],
];

export async function measureReads(device: GlContext): Promise<Reads> {
  const known = KNOWN.find(([name]) => name.test(device.capabilities.renderer));
  return known?.[1] ?? probe(device);
}

/** Exported for its test: no device of a test asks for it. */
export async function probe(device: GlContext): Promise<Reads> {
  const { gl, state, resources, programs } = device;
  const source = `#define READS ${READS}\n${text}`;
  const linked = await programs.acquire([
    { name: "probe textureLod", source, samplers: ["x0"] },
    { name: "probe texture", source: `#define READ_TEXTURE\n${source}`, samplers: ["x0"] },
  ]);
  const size = { width: SIZE, height: SIZE, layers: 1 };
  const [from, to] = [resources.texture(size), resources.texture(size)];
  const framebuffer = resources.framebuffer(to, 1);
  const pixel = new Float32Array(4);
  state.target(framebuffer);
  state.texture(0, from);
  state.scissor(undefined);
  const time = (program: WebGLProgram, texels: number) => {
    const start = performance.now();
    state.use(program);
    state.viewport(0, 0, texels, texels);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.FLOAT, pixel);
    return performance.now() - start;
  };
  for (const { program } of linked) time(program, 1);
  const best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < ROUNDS; round++) {
    for (const [k, { program }] of linked.entries()) {
      best[k] = Math.min(best[k] ?? 0, time(program, SIZE));
    }
  }
  resources.freeFramebuffer(framebuffer);
  resources.freeTexture(from);
  resources.freeTexture(to);
  programs.release(linked);
  device.check();
  const [lod = 1, plain = 1] = best;
  const readTexture = plain * CLEARLY < lod && !NO_DERIVATIVES.test(device.capabilities.renderer);
  const ms = Math.max(0.05, readTexture ? plain : lod);
  return { readTexture, perMs: (SIZE * SIZE * READS) / ms };
}
