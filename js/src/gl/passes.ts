// Small passes of our own between textures: for ranges and statistics.
import { TEXEL_BYTES, UNIFORM_BYTES } from "../plan.ts";
import type { GlDevice } from "./device.ts";
import { type Numbers, writeNumbers } from "./numbers.ts";
import { type Linked, PASS_BINDING } from "./programs.ts";

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

export function freeSurface(device: GlDevice, target: Surface): void {
  device.resources.freeFramebuffer(target.framebuffer);
  device.resources.freeTexture(target.texture);
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
