// Textures, framebuffers and buffers, made and freed with a count of those alive.

import {
  type Alive,
  ContextLostError,
  type Format,
  type Patch,
  PlanError,
  type Precision,
} from "../plan/runtime.ts";
import type { Pass, PlanHeader, Texture } from "../plan/schema.ts";
import type { State } from "./gl_state.ts";

/** Texels of one upload call: 4 MiB, so that no call keeps the page long. */
const UPLOAD_TEXELS = 2 ** 18;

export type Size = Pick<Texture, "width" | "height" | "layers">;

const INTERNAL = { rgba32f: "RGBA32F", rgba16f: "RGBA16F", rgba8: "RGBA8" } as const;

/** The texture that is bound there is read texel by texel, and has no others around it. */
export function readByTexel(gl: WebGL2RenderingContext, target: GLenum): void {
  for (const [name, value] of [
    [gl.TEXTURE_MIN_FILTER, gl.NEAREST],
    [gl.TEXTURE_MAG_FILTER, gl.NEAREST],
    [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE],
    [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
  ] as const) {
    gl.texParameteri(target, name, value);
  }
}

export class Resources {
  private readonly gl: WebGL2RenderingContext;
  private readonly state: State;
  private readonly alive: Alive;
  /** The most exact format that this device can draw into. */
  readonly drawn: Format;
  /** How often something had no room: see `sound`. */
  faults = 0;
  private fault: PlanError | undefined;
  private asking: Promise<void> | undefined;
  /** Kinds of framebuffers that were found complete: format and number of colour attachments. */
  private readonly complete = new Set<string>();

  constructor(gl: WebGL2RenderingContext, state: State, alive: Alive, precision: Precision) {
    this.gl = gl;
    this.state = state;
    this.alive = alive;
    this.drawn = precision === "float16" ? "rgba16f" : "rgba32f";
  }

  /** The textures of a Plan as they can be had here: what is drawn into is half where it must be. */
  allocated({ textures, carries, inputs }: PlanHeader, passes: readonly Pass[]): Texture[] {
    const outputs = new Set(passes.map((pass) => pass.output));
    for (const { fit, staging } of inputs) if (fit !== "") outputs.add(staging); // pictures are drawn there
    for (const { target } of carries) outputs.add(target); // as what is copied there
    return textures.map((one, k) =>
      outputs.has(k) && this.drawn === "rgba16f" ? { ...one, format: this.drawn } : one,
    );
  }

  /** A texture array, NEAREST and one level: all reads are exact. */
  texture(
    { width, height, layers }: Size,
    format: keyof typeof INTERNAL = this.drawn,
  ): WebGLTexture {
    const { gl } = this;
    const texture = gl.createTexture();
    this.alive.textures += 1;
    this.state.filled(texture);
    gl.texStorage3D(gl.TEXTURE_2D_ARRAY, 1, gl[INTERNAL[format]], width, height, layers);
    readByTexel(gl, gl.TEXTURE_2D_ARRAY);
    return texture;
  }

  /** Writes a whole texture in calls of at most UPLOAD_TEXELS; yields the texels written by each. */
  *upload(texture: WebGLTexture, { width, height, layers }: Size, data: Float32Array) {
    const { gl } = this;
    const rows = Math.max(1, Math.floor(UPLOAD_TEXELS / width));
    for (let layer = 0; layer < layers; layer++) {
      for (let y = 0; y < height; y += rows) {
        const count = Math.min(rows, height - y);
        const from = (layer * height + y) * width * 4;
        this.state.filled(texture);
        gl.texSubImage3D(
          gl.TEXTURE_2D_ARRAY, 0, 0, y, layer, width, count, 1,
          gl.RGBA, gl.FLOAT, data, from,
        ); // biome-ignore format: one call's arguments
        yield width * count;
      }
    }
  }

  /** Writes a rectangle of a texture. */
  patch(texture: WebGLTexture, { layer, x, y, width, height, data }: Patch): void {
    const { gl } = this;
    this.state.filled(texture);
    gl.texSubImage3D(
      gl.TEXTURE_2D_ARRAY, 0, x, y, layer, width, height, 1, gl.RGBA, gl.FLOAT, data,
    ); // biome-ignore format: one call's arguments
  }

  /** Copies all of a texture, over which `from` is, to another one of its size and format. */
  copy(from: WebGLFramebuffer, to: WebGLTexture, { width, height, layers }: Size): void {
    const { gl } = this;
    this.state.target(from);
    this.state.filled(to);
    for (let layer = 0; layer < layers; layer++) {
      gl.readBuffer(gl.COLOR_ATTACHMENT0 + layer);
      gl.copyTexSubImage3D(gl.TEXTURE_2D_ARRAY, 0, 0, 0, layer, 0, 0, width, height);
    }
    gl.readBuffer(gl.COLOR_ATTACHMENT0); // where all else is read
  }

  /** A framebuffer whose colour attachments are the texture's layers. */
  framebuffer(
    texture: WebGLTexture,
    layers: number,
    format: keyof typeof INTERNAL = this.drawn,
  ): WebGLFramebuffer {
    const { gl } = this;
    const framebuffer = gl.createFramebuffer();
    this.alive.framebuffers += 1;
    this.state.target(framebuffer);
    const targets = Array.from({ length: layers }, (_, k) => gl.COLOR_ATTACHMENT0 + k);
    for (const [layer, target] of targets.entries()) {
      gl.framebufferTextureLayer(gl.FRAMEBUFFER, target, texture, 0, layer);
    }
    gl.drawBuffers(targets);
    const kind = `${layers} layers of ${format}`;
    if (!this.complete.has(kind)) {
      const status = gl.checkFramebufferStatus(gl.FRAMEBUFFER);
      if (gl.isContextLost()) throw new ContextLostError();
      if (status !== gl.FRAMEBUFFER_COMPLETE) {
        throw new PlanError(
          `this browser cannot draw into ${kind} at once (framebuffer status ${status})`,
        );
      }
      this.complete.add(kind);
    }
    return framebuffer;
  }

  /** A buffer, of uniforms unless it is read; `data` is its contents or its size. */
  buffer(
    data: Uint8Array | number,
    usage: "STATIC_DRAW" | "DYNAMIC_DRAW" | "STREAM_READ",
  ): WebGLBuffer {
    const { gl } = this;
    const buffer = gl.createBuffer();
    this.alive.buffers += 1;
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
    this.faults += 1;
    this.fault = new PlanError(
      error === gl.OUT_OF_MEMORY
        ? `the graphics device has no room${all}; a smaller batch or input needs less`
        : `the graphics device refused ${mib} MiB of textures (error ${error})`,
    );
    throw this.fault;
  }

  /**
   * Throws when something since `faults` were counted had no room. Those who ask at once share a question, which is
   * put when `finish` says that the device has nothing to do: the page would be held for all that waits there.
   */
  async sound(faults: number, finish: () => Promise<void>): Promise<void> {
    this.asking ??= finish().then(() => {
      this.asking = undefined;
      this.checkMemory();
    });
    await this.asking;
    if (this.faults !== faults) throw this.fault;
  }

  freeTexture(texture: WebGLTexture): void {
    this.gl.deleteTexture(texture);
    this.alive.textures -= 1;
  }

  freeFramebuffer(framebuffer: WebGLFramebuffer): void {
    this.gl.deleteFramebuffer(framebuffer);
    this.alive.framebuffers -= 1;
  }

  freeBuffer(buffer: WebGLBuffer): void {
    this.gl.deleteBuffer(buffer);
    this.alive.buffers -= 1;
  }
}
