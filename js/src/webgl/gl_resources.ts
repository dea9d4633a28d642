// Textures, framebuffers and buffers, made and freed with a count of those alive.

import {
  ContextLostError,
  type Format,
  type LiveObjects,
  type Patch,
  PlanError,
  type Precision,
} from "../plan/runtime.ts";
import type { Pass, PlanHeader, Texture } from "../plan/schema.ts";
import type { GlState } from "./gl_state.ts";

/** Texels of one upload call: 4 MiB, so that no call keeps the page long. */
const UPLOAD_TEXELS = 2 ** 18;

export type TextureSize = Pick<Texture, "width" | "height" | "layers">;

const INTERNAL_FORMATS = { rgba32f: "RGBA32F", rgba16f: "RGBA16F", rgba8: "RGBA8" } as const;

/** The texture that is bound there is read texel by texel, and has no others around it. */
export function setNearestFilter(gl: WebGL2RenderingContext, target: GLenum): void {
  for (const [name, value] of [
    [gl.TEXTURE_MIN_FILTER, gl.NEAREST],
    [gl.TEXTURE_MAG_FILTER, gl.NEAREST],
    [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE],
    [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
  ] as const) {
    gl.texParameteri(target, name, value);
  }
}

export class GlResources {
  private readonly gl: WebGL2RenderingContext;
  private readonly state: GlState;
  private readonly liveObjects: LiveObjects;
  /** The most exact format that this device can draw into. */
  readonly renderFormat: Format;
  /** How often something had no room: see `checkErrorsSince`. */
  errorCount = 0;
  private lastError: PlanError | undefined;
  private pendingCheck: Promise<void> | undefined;
  /** Kinds of framebuffers that were found complete: format and number of colour attachments. */
  private readonly completeKinds = new Set<string>();

  constructor(
    gl: WebGL2RenderingContext,
    state: GlState,
    alive: LiveObjects,
    precision: Precision,
  ) {
    this.gl = gl;
    this.state = state;
    this.liveObjects = alive;
    this.renderFormat = precision === "float16" ? "rgba16f" : "rgba32f";
  }

  /** The textures of a Plan as they can be had here: what is drawn into is half where it must be. */
  supportedTextures({ textures, carries, inputs }: PlanHeader, passes: readonly Pass[]): Texture[] {
    const outputs = new Set(passes.map((pass) => pass.output));
    for (const { fit, staging } of inputs) if (fit !== "") outputs.add(staging); // pictures are drawn there
    for (const { target } of carries) outputs.add(target); // as what is copied there
    return textures.map((one, k) =>
      outputs.has(k) && this.renderFormat === "rgba16f"
        ? { ...one, format: this.renderFormat }
        : one,
    );
  }

  /** A texture array, NEAREST and one level: all reads are exact. */
  createTexture(
    { width, height, layers }: TextureSize,
    format: keyof typeof INTERNAL_FORMATS = this.renderFormat,
  ): WebGLTexture {
    const { gl } = this;
    const texture = gl.createTexture();
    this.liveObjects.textures += 1;
    this.state.bindForUpload(texture);
    gl.texStorage3D(gl.TEXTURE_2D_ARRAY, 1, gl[INTERNAL_FORMATS[format]], width, height, layers);
    setNearestFilter(gl, gl.TEXTURE_2D_ARRAY);
    return texture;
  }

  /** Writes a whole texture in calls of at most UPLOAD_TEXELS; yields the texels written by each. */
  *upload(texture: WebGLTexture, { width, height, layers }: TextureSize, data: Float32Array) {
    const { gl } = this;
    const rows = Math.max(1, Math.floor(UPLOAD_TEXELS / width));
    for (let layer = 0; layer < layers; layer++) {
      for (let y = 0; y < height; y += rows) {
        const count = Math.min(rows, height - y);
        const from = (layer * height + y) * width * 4;
        this.state.bindForUpload(texture);
        gl.texSubImage3D(
          gl.TEXTURE_2D_ARRAY, 0, 0, y, layer, width, count, 1,
          gl.RGBA, gl.FLOAT, data, from,
        ); // biome-ignore format: one call's arguments
        yield width * count;
      }
    }
  }

  /** Writes a rectangle of a texture. */
  uploadPatch(texture: WebGLTexture, { layer, x, y, width, height, data }: Patch): void {
    const { gl } = this;
    this.state.bindForUpload(texture);
    gl.texSubImage3D(
      gl.TEXTURE_2D_ARRAY, 0, x, y, layer, width, height, 1, gl.RGBA, gl.FLOAT, data,
    ); // biome-ignore format: one call's arguments
  }

  /** Copies all of a texture, over which `from` is, to another one of its size and format. */
  copyTexture(
    from: WebGLFramebuffer,
    to: WebGLTexture,
    { width, height, layers }: TextureSize,
  ): void {
    const { gl } = this;
    this.state.bindFramebuffer(from);
    this.state.bindForUpload(to);
    for (let layer = 0; layer < layers; layer++) {
      gl.readBuffer(gl.COLOR_ATTACHMENT0 + layer);
      gl.copyTexSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, layer, 0, 0, width, height);
    }
    gl.readBuffer(gl.COLOR_ATTACHMENT0); // where all else is read
  }

  /** A framebuffer whose colour attachments are the texture's layers. */
  createFramebuffer(
    texture: WebGLTexture,
    layers: number,
    format: keyof typeof INTERNAL_FORMATS = this.renderFormat,
  ): WebGLFramebuffer {
    const { gl } = this;
    const framebuffer = gl.createFramebuffer();
    this.liveObjects.framebuffers += 1;
    this.state.bindFramebuffer(framebuffer);
    const targets = Array.from({ length: layers }, (_, k) => gl.COLOR_ATTACHMENT0 + k);
    for (const [layer, target] of targets.entries()) {
      gl.framebufferTextureLayer(gl.FRAMEBUFFER, target, texture, 0, layer);
    }
    gl.drawBuffers(targets);
    const kind = `${layers} layers of ${format}`;
    if (!this.completeKinds.has(kind)) {
      const status = gl.checkFramebufferStatus(gl.FRAMEBUFFER);
      if (gl.isContextLost()) throw new ContextLostError();
      if (status !== gl.FRAMEBUFFER_COMPLETE) {
        throw new PlanError(
          `this browser cannot draw into ${kind} at once (framebuffer status ${status})`,
        );
      }
      this.completeKinds.add(kind);
    }
    return framebuffer;
  }

  /** A buffer, of uniforms unless it is read; `data` is its contents or its size. */
  createBuffer(
    data: Uint8Array | number,
    usage: "STATIC_DRAW" | "DYNAMIC_DRAW" | "STREAM_READ",
  ): WebGLBuffer {
    const { gl } = this;
    const buffer = gl.createBuffer();
    this.liveObjects.buffers += 1;
    gl.bindBuffer(gl.UNIFORM_BUFFER, buffer);
    if (typeof data === "number") gl.bufferData(gl.UNIFORM_BUFFER, data, gl[usage]);
    else gl.bufferData(gl.UNIFORM_BUFFER, data, gl[usage]);
    return buffer;
  }

  /** Throws when what was allocated since the last question did not fit; `bytes` of a network are in the message. */
  checkMemory(bytes = 0): void {
    const { gl } = this;
    const error = gl.getError(); // seldom: each question waits for the driver
    if (error === gl.NO_ERROR) return;
    while (gl.getError() !== gl.NO_ERROR); // what follows from the first is nobody else's fault
    if (error === gl.CONTEXT_LOST_WEBGL) throw new ContextLostError();
    const mib = (bytes / 2 ** 20).toFixed(0);
    const all = bytes > 0 ? ` for this network's ${mib} MiB of values and weights` : " left";
    this.errorCount += 1;
    this.lastError = new PlanError(
      error === gl.OUT_OF_MEMORY
        ? `the GPU has not enough memory${all}; use a smaller batch or input`
        : `the graphics device refused ${mib} MiB of textures (error ${error})`,
    );
    throw this.lastError;
  }

  /**
   * Throws when something since `faults` were counted had no room. Those who ask at once share a question, which is
   * put when `finish` says that the device has nothing to do: the page would be held for all that waits there.
   */
  async checkErrorsSince(faults: number, finish: () => Promise<void>): Promise<void> {
    this.pendingCheck ??= finish().then(() => {
      this.pendingCheck = undefined;
      this.checkMemory();
    });
    await this.pendingCheck;
    if (this.errorCount !== faults) throw this.lastError;
  }

  freeTexture(texture: WebGLTexture): void {
    this.gl.deleteTexture(texture);
    this.liveObjects.textures -= 1;
  }

  freeFramebuffer(framebuffer: WebGLFramebuffer): void {
    this.gl.deleteFramebuffer(framebuffer);
    this.liveObjects.framebuffers -= 1;
  }

  freeBuffer(buffer: WebGLBuffer): void {
    this.gl.deleteBuffer(buffer);
    this.liveObjects.buffers -= 1;
  }
}
