// What is bound now, so that nothing is bound twice; each call into WebGL costs a browser microseconds.
import type { Box } from "../plan/schedule.ts";

export class State {
  /** Grows with each program that is chosen or linked: the device has more to do then. */
  works = 0;
  private readonly gl: WebGL2RenderingContext;
  private program: WebGLProgram | null = null;
  private framebuffer: WebGLFramebuffer | null = null;
  /** The active one. */
  unit = 0;
  private readonly textures: (WebGLTexture | undefined)[] = [];
  private view: Box = [-1, -1, -1, -1];
  private band: Box | undefined;
  private readonly ranges: [WebGLBuffer, number][] = [];

  constructor(gl: WebGL2RenderingContext) {
    this.gl = gl;
  }

  use(program: WebGLProgram): void {
    this.works += 1;
    if (this.program === program) return;
    this.gl.useProgram(program);
    this.program = program;
  }

  texture(unit: number, texture: WebGLTexture): void {
    if (this.textures[unit] === texture) return;
    if (this.unit !== unit) this.gl.activeTexture(this.gl.TEXTURE0 + unit);
    this.unit = unit;
    this.gl.bindTexture(this.gl.TEXTURE_2D_ARRAY, texture);
    this.textures[unit] = texture;
  }

  /** Where calls that fill a texture find it: the active unit, which is any. */
  filled(texture: WebGLTexture): void {
    this.texture(this.unit, texture);
  }

  /** One texture a unit, from the active one on: that needs no call to become active. */
  bind(textures: readonly WebGLTexture[]): void {
    const { length } = textures;
    const first = this.unit < length ? this.unit : 0;
    for (let k = 0; k < length; k++) {
      const unit = (first + k) % length;
      this.texture(unit, textures[unit] as WebGLTexture);
    }
  }

  /** For drawing and reading; null is the canvas. */
  target(framebuffer: WebGLFramebuffer | null): void {
    if (this.framebuffer === framebuffer) return;
    this.gl.bindFramebuffer(this.gl.FRAMEBUFFER, framebuffer);
    this.framebuffer = framebuffer;
  }

  viewport(x: number, y: number, width: number, height: number): void {
    const [a, b, c, d] = this.view;
    if (a === x && b === y && c === width && d === height) return;
    this.gl.viewport(x, y, width, height);
    this.view = [x, y, width, height];
  }

  scissor(band: Box | undefined): void {
    if (band === undefined && this.band === undefined) return;
    if (band === undefined) this.gl.disable(this.gl.SCISSOR_TEST);
    else {
      if (this.band === undefined) this.gl.enable(this.gl.SCISSOR_TEST);
      this.gl.scissor(...band);
    }
    this.band = band;
  }

  uniforms(binding: number, buffer: WebGLBuffer, offset: number, bytes: number): void {
    const [bound, at] = this.ranges[binding] ?? [];
    if (bound === buffer && at === offset) return;
    this.gl.bindBufferRange(this.gl.UNIFORM_BUFFER, binding, buffer, offset, bytes);
    this.ranges[binding] = [buffer, offset];
  }
}
