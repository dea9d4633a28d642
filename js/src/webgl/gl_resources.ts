// Creates and frees textures, framebuffers and buffers, and counts the live ones.

import {
  ContextLostError,
  type LiveObjectCounts,
  type Patch,
  PlanError,
  type Precision,
  type TextureFormat,
} from "../plan/runtime.ts";
import type { Pass, PlanHeader, Texture } from "../plan/schema.ts";
import type { GlState } from "./gl_state.ts";

/** Texels per upload call: 4 MiB, so that no call blocks the page for long. */
const MAX_TEXELS_PER_UPLOAD = 2 ** 18;

export type TextureSize = Pick<Texture, "width" | "height" | "layers">;

const INTERNAL_FORMATS = { rgba32f: "RGBA32F", rgba16f: "RGBA16F", rgba8: "RGBA8" } as const;

/** Set the bound texture to NEAREST sampling, clamped to its edge. */
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
  private readonly liveObjects: LiveObjectCounts;
  /** The most precise format that this device can render to. */
  readonly renderFormat: TextureFormat;
  /** The number of failed allocations: see `checkErrorsSince`. */
  errorCount = 0;
  private lastError: PlanError | undefined;
  private pendingCheck: Promise<void> | undefined;
  /** Kinds of framebuffers known to be complete: format and number of colour attachments. */
  private readonly completeKinds = new Set<string>();

  constructor(
    gl: WebGL2RenderingContext,
    state: GlState,
    liveObjects: LiveObjectCounts,
    precision: Precision,
  ) {
    this.gl = gl;
    this.state = state;
    this.liveObjects = liveObjects;
    this.renderFormat = precision === "float16" ? "rgba16f" : "rgba32f";
  }

  /**
   * A Plan's textures in formats that this device supports: render targets are float16 if float32 cannot be rendered.
   */
  supportedTextures({ textures, carries, inputs }: PlanHeader, passes: readonly Pass[]): Texture[] {
    const outputs = new Set(passes.map((pass) => pass.output));
    for (const { fit, staging } of inputs) if (fit !== "") outputs.add(staging); // pictures go here
    for (const { target } of carries) outputs.add(target); // same format as the copied texture
    return textures.map((one, k) =>
      outputs.has(k) && this.renderFormat === "rgba16f"
        ? { ...one, format: this.renderFormat }
        : one,
    );
  }

  /** A texture array with NEAREST filtering and one level, so that all reads are exact. */
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

  /**
   * Upload a whole texture in calls of at most MAX_TEXELS_PER_UPLOAD; yields the number of texels written by each call.
   */
  *upload(texture: WebGLTexture, { width, height, layers }: TextureSize, data: Float32Array) {
    const { gl } = this;
    const rows = Math.max(1, Math.floor(MAX_TEXELS_PER_UPLOAD / width));
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

  /** Upload a rectangle of a texture. */
  uploadPatch(texture: WebGLTexture, { layer, x, y, width, height, data }: Patch): void {
    const { gl } = this;
    this.state.bindForUpload(texture);
    gl.texSubImage3D(
      gl.TEXTURE_2D_ARRAY, 0, x, y, layer, width, height, 1, gl.RGBA, gl.FLOAT, data,
    ); // biome-ignore format: one call's arguments
  }

  /** Copy a whole texture, bound to framebuffer `from`, to another texture of the same size and format. */
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
    gl.readBuffer(gl.COLOR_ATTACHMENT0); // the attachment that all other code reads
  }

  /** Create a framebuffer whose colour attachments are the texture's layers. */
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

  /** Create a uniform buffer, or a readback buffer for STREAM_READ; `data` is its contents or its size. */
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

  /** Throw if an allocation since the last check failed; the message mentions `networkBytes`, the size of a network. */
  checkMemory(networkBytes = 0): void {
    const { gl } = this;
    const error = gl.getError(); // rarely: each getError waits for the driver
    if (error === gl.NO_ERROR) return;
    while (gl.getError() !== gl.NO_ERROR); // drop the errors that follow from the first
    if (error === gl.CONTEXT_LOST_WEBGL) throw new ContextLostError();
    const mib = (networkBytes / 2 ** 20).toFixed(0);
    const all = networkBytes > 0 ? ` for this network's ${mib} MiB of values and weights` : " left";
    this.errorCount += 1;
    this.lastError = new PlanError(
      error === gl.OUT_OF_MEMORY
        ? `the GPU has not enough memory${all}; use a smaller batch or input`
        : `the graphics device refused ${mib} MiB of textures (error ${error})`,
    );
    throw this.lastError;
  }

  /**
   * Throw if an allocation has failed since the error count was `errorCountBefore`. Concurrent calls share one check,
   * made when `waitForIdle` reports that the GPU is idle: an earlier getError would block the page for all pending
   * work.
   */
  async checkErrorsSince(
    errorCountBefore: number,
    waitForIdle: () => Promise<void>,
  ): Promise<void> {
    this.pendingCheck ??= waitForIdle().then(() => {
      this.pendingCheck = undefined;
      this.checkMemory();
    });
    await this.pendingCheck;
    if (this.errorCount !== errorCountBefore) throw this.lastError;
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
