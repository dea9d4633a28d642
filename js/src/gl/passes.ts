// Small passes of our own between textures: for ranges and statistics.
import { TEXEL_BYTES, UNIFORM_BYTES } from "../plan.ts";
import type { GlDevice } from "./device.ts";
import { type Numbers, writeNumbers } from "./numbers.ts";
import { type Linked, PASS_BINDING } from "./programs.ts";

const COLUMNS = 1024;

/** A texture array that is drawn into. */
export interface Surface {
  readonly texture: WebGLTexture;
  readonly framebuffer: WebGLFramebuffer;
  readonly width: number;
  readonly height: number;
  readonly layers: number;
  readonly bytes: number;
}

export function makeSurface(
  device: GlDevice,
  width: number,
  height: number,
  layers: number,
): Surface {
  const { resources } = device;
  const texture = resources.texture({ width, height, layers });
  const framebuffer = resources.framebuffer(texture, layers);
  const bytes = width * height * layers * TEXEL_BYTES[resources.drawn];
  return { texture, framebuffer, width, height, layers, bytes };
}

/** One with 4 layers of at least so many texels. */
export function surfaceOf(device: GlDevice, texels: number): Surface {
  return makeSurface(device, Math.min(COLUMNS, texels), Math.ceil(texels / COLUMNS), 4);
}

export function freeSurface(device: GlDevice, target: Surface): void {
  device.resources.freeFramebuffer(target.framebuffer);
  device.resources.freeTexture(target.texture);
}

export function whole({ width, height }: Surface): [number, number, number, number] {
  return [0, 0, width, height];
}

/**
 * Copies all texels of each layer to where the page can have them: what is returned waits for the device, so
 * that it is called when that has finished, and no more than once.
 */
export function layersOf(
  { gl, state, resources }: GlDevice,
  { framebuffer, width, height, layers }: Surface,
): () => Float32Array[] {
  const pack = gl.PIXEL_PACK_BUFFER;
  const length = width * height * 4;
  const buffer = resources.buffer(layers * length * 4, "STREAM_READ");
  gl.bindBuffer(pack, buffer);
  state.target(framebuffer);
  for (let k = 0; k < layers; k++) {
    gl.readBuffer(gl.COLOR_ATTACHMENT0 + k);
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.FLOAT, k * length * 4);
  }
  gl.bindBuffer(pack, null);
  return () => {
    const data = new Float32Array(layers * length);
    gl.bindBuffer(pack, buffer);
    gl.getBufferSubData(pack, 0, data);
    resources.freeBuffer(buffer); // which unbinds it
    return Array.from({ length: layers }, (_, k) => data.subarray(k * length, (k + 1) * length));
  };
}

export interface OwnPass {
  readonly linked: Linked;
  readonly inputs: readonly WebGLTexture[];
  readonly target: Surface;
  /** Left, bottom, width and height in the target. */
  readonly area: readonly [number, number, number, number];
  readonly numbers: Numbers;
}

/** Puts the numbers of passes on the device, in one upload. */
export function writePasses(
  { gl }: GlDevice,
  buffer: WebGLBuffer,
  passes: readonly OwnPass[],
): void {
  const block = new ArrayBuffer(passes.length * UNIFORM_BYTES);
  for (const [k, pass] of passes.entries()) writeNumbers(block, k * UNIFORM_BYTES, pass.numbers);
  gl.bindBuffer(gl.UNIFORM_BUFFER, buffer);
  gl.bufferData(gl.UNIFORM_BUFFER, block, gl.DYNAMIC_DRAW);
}

/** Draws passes in order, whose numbers are in `buffer`. */
export function drawPasses(
  { gl, state }: GlDevice,
  buffer: WebGLBuffer,
  passes: readonly OwnPass[],
): void {
  state.scissor(undefined);
  for (const [k, { linked, inputs, target, area }] of passes.entries()) {
    state.use(linked.program);
    state.bind(inputs);
    state.target(target.framebuffer);
    state.viewport(...area);
    state.uniforms(PASS_BINDING, buffer, k * UNIFORM_BYTES, UNIFORM_BYTES);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }
}
