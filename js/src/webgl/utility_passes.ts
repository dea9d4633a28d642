// Small passes between textures, for ranges and statistics.
import { TEXEL_BYTES, UNIFORM_BYTES } from "../plan/schema.ts";
import { type PassUniforms, writeUniforms } from "../plan/uniforms.ts";
import type { GlDevice } from "./gl_device.ts";
import { type LinkedProgram, PASS_BINDING } from "./program_cache.ts";

const SURFACE_COLUMNS = 1024;

/** A texture array used as a render target. */
export interface Surface {
  readonly texture: WebGLTexture;
  readonly framebuffer: WebGLFramebuffer;
  readonly width: number;
  readonly height: number;
  readonly layers: number;
  readonly bytes: number;
}

export function createSurface(
  device: GlDevice,
  width: number,
  height: number,
  layers: number,
): Surface {
  const { resources } = device;
  const texture = resources.createTexture({ width, height, layers });
  const framebuffer = resources.createFramebuffer(texture, layers);
  const bytes = width * height * layers * TEXEL_BYTES[resources.renderFormat];
  return { texture, framebuffer, width, height, layers, bytes };
}

/** A surface with 4 layers of at least `texels` texels. */
export function createSurfaceFor(device: GlDevice, texels: number): Surface {
  return createSurface(
    device,
    Math.min(SURFACE_COLUMNS, texels),
    Math.ceil(texels / SURFACE_COLUMNS),
    4,
  );
}

export function freeSurface(device: GlDevice, target: Surface): void {
  device.resources.freeFramebuffer(target.framebuffer);
  device.resources.freeTexture(target.texture);
}

export function fullViewport({ width, height }: Surface): [number, number, number, number] {
  return [0, 0, width, height];
}

/** Read all texels of each layer of surfaces of the same size; returns a function, as `startReadback` does. */
export function readSurfaceLayers(
  device: GlDevice,
  ...targets: readonly Surface[]
): () => Float32Array[] {
  const { gl, state } = device;
  const { width = 0, height = 0 } = targets[0] ?? {};
  const length = width * height * 4;
  const count = targets.reduce((sum, { layers }) => sum + layers, 0);
  const read = startReadback(device, count * length, () => {
    let at = 0;
    for (const { framebuffer, layers } of targets) {
      state.bindFramebuffer(framebuffer);
      for (let k = 0; k < layers; k++, at += length * 4) {
        gl.readBuffer(gl.COLOR_ATTACHMENT0 + k);
        gl.readPixels(0, 0, width, height, gl.RGBA, gl.FLOAT, at);
      }
    }
  });
  return () => {
    const data = read();
    return Array.from({ length: count }, (_, k) => data.subarray(k * length, (k + 1) * length));
  };
}

/**
 * Read floats by `copyToBuffer` into a GPU buffer, without blocking. The returned function takes them from the buffer:
 * call it once, by readWhenIdle or, if blocking is wanted, at once.
 */
export function startReadback(
  device: GlDevice,
  floatCount: number,
  copyToBuffer: () => void,
): () => Float32Array<ArrayBuffer> {
  const { generation, gl, resources } = device;
  const pack = gl.PIXEL_PACK_BUFFER;
  const buffer = resources.createBuffer(floatCount * 4, "STREAM_READ");
  gl.bindBuffer(pack, buffer);
  try {
    copyToBuffer();
  } catch (error) {
    resources.freeBuffer(buffer);
    throw error;
  } finally {
    gl.bindBuffer(pack, null); // otherwise the next readPixels would write into it
  }
  return () => {
    device.check(generation);
    const data = new Float32Array(floatCount);
    gl.bindBuffer(pack, buffer);
    gl.getBufferSubData(pack, 0, data);
    resources.freeBuffer(buffer); // which also unbinds it
    device.check(); // a lost context leaves `data` unchanged, without an error
    return data;
  };
}

export interface UtilityPass {
  readonly linked: LinkedProgram;
  readonly inputs: readonly WebGLTexture[];
  readonly target: Surface;
  /** Left, bottom, width and height in the target. */
  readonly viewport: readonly [number, number, number, number];
  readonly uniforms: PassUniforms;
}

/** Upload the uniforms of passes, in one call. */
export function uploadPassUniforms(
  { gl }: GlDevice,
  buffer: WebGLBuffer,
  passes: readonly UtilityPass[],
): void {
  const block = new ArrayBuffer(passes.length * UNIFORM_BYTES);
  for (const [k, pass] of passes.entries()) writeUniforms(block, k * UNIFORM_BYTES, pass.uniforms);
  gl.bindBuffer(gl.UNIFORM_BUFFER, buffer);
  gl.bufferData(gl.UNIFORM_BUFFER, block, gl.DYNAMIC_DRAW);
}

/** Draw passes in order, with their uniforms in `buffer`. */
export function drawPasses(
  { gl, state }: GlDevice,
  buffer: WebGLBuffer,
  passes: readonly UtilityPass[],
): void {
  state.setScissor(undefined);
  for (const [k, { linked, inputs, target, viewport }] of passes.entries()) {
    state.useProgram(linked.program);
    state.bindTextures(inputs);
    state.bindFramebuffer(target.framebuffer);
    state.setViewport(...viewport);
    state.bindUniforms(PASS_BINDING, buffer, k * UNIFORM_BYTES, UNIFORM_BYTES);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }
}
