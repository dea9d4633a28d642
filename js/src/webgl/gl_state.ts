// A cache of the bound WebGL state that skips redundant calls; each call into WebGL costs microseconds.
import type { Box } from "../plan/run_slices.ts";

export class GlState {
  /** Incremented by each program that is used or linked: the GPU has new work then. */
  workCount = 0;
  private readonly gl: WebGL2RenderingContext;
  private program: WebGLProgram | null = null;
  private framebuffer: WebGLFramebuffer | null = null;
  /** The active texture unit. */
  activeUnit = 0;
  private readonly textures: (WebGLTexture | undefined)[] = [];
  private viewportBox: Box = [-1, -1, -1, -1];
  private scissorBox: Box | undefined;
  private readonly uniformRanges: [WebGLBuffer, number][] = [];

  constructor(gl: WebGL2RenderingContext) {
    this.gl = gl;
  }

  useProgram(program: WebGLProgram): void {
    this.workCount += 1;
    if (this.program === program) return;
    this.gl.useProgram(program);
    this.program = program;
  }

  bindTexture(unit: number, texture: WebGLTexture): void {
    if (this.textures[unit] === texture) return;
    if (this.activeUnit !== unit) this.gl.activeTexture(this.gl.TEXTURE0 + unit);
    this.activeUnit = unit;
    this.gl.bindTexture(this.gl.TEXTURE_2D_ARRAY, texture);
    this.textures[unit] = texture;
  }

  /** Bind a texture for uploads, to the active unit, whichever it is. */
  bindForUpload(texture: WebGLTexture): void {
    this.bindTexture(this.activeUnit, texture);
  }

  /** Bind one texture per unit, starting with the active unit, which saves a call. */
  bindTextures(textures: readonly WebGLTexture[]): void {
    const { length } = textures;
    const first = this.activeUnit < length ? this.activeUnit : 0;
    for (let k = 0; k < length; k++) {
      const unit = (first + k) % length;
      this.bindTexture(unit, textures[unit] as WebGLTexture);
    }
  }

  /** Bind a framebuffer for drawing and reading; null is the canvas. */
  bindFramebuffer(framebuffer: WebGLFramebuffer | null): void {
    if (this.framebuffer === framebuffer) return;
    this.gl.bindFramebuffer(this.gl.FRAMEBUFFER, framebuffer);
    this.framebuffer = framebuffer;
  }

  setViewport(x: number, y: number, width: number, height: number): void {
    const [a, b, c, d] = this.viewportBox;
    if (a === x && b === y && c === width && d === height) return;
    this.gl.viewport(x, y, width, height);
    this.viewportBox = [x, y, width, height];
  }

  setScissor(box: Box | undefined): void {
    if (box === undefined && this.scissorBox === undefined) return;
    if (box === undefined) this.gl.disable(this.gl.SCISSOR_TEST);
    else {
      if (this.scissorBox === undefined) this.gl.enable(this.gl.SCISSOR_TEST);
      this.gl.scissor(...box);
    }
    this.scissorBox = box;
  }

  bindUniforms(binding: number, buffer: WebGLBuffer, offset: number, bytes: number): void {
    const [bound, at] = this.uniformRanges[binding] ?? [];
    if (bound === buffer && at === offset) return;
    this.gl.bindBufferRange(this.gl.UNIFORM_BUFFER, binding, buffer, offset, bytes);
    this.uniformRanges[binding] = [buffer, offset];
  }
}
