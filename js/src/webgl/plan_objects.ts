// A Plan's objects on the GPU: programs, textures, framebuffers, uniforms; and the draw of one pass.

import { textureBytes } from "../plan/check_plan.ts";
import { type Patch, PlanError, type Progress, type TexelSpan } from "../plan/runtime.ts";
import { type Pass, type PlanHeader, type Texture, UNIFORM_BYTES } from "../plan/schema.ts";
import type { GlDevice } from "./gl_device.ts";
import { waitForFence, waitForIdle } from "./gpu_clock.ts";
import type { StagingTarget } from "./picture_upload.ts";
import { type LinkedProgram, PASS_BINDING } from "./program_cache.ts";
import { startReadback } from "./utility_passes.ts";

/** Milliseconds of uploads after which the page waits for the GPU and can draw a frame. */
const MAX_UPLOAD_BURST_MS = 16;

/** A Plan's weights by index. */
export interface WeightSource {
  /** The hash of `weightData`; "" for data that only this session has. */
  weightHash(index: number): string;
  weightData(index: number): Float32Array;
}

export class PlanObjects {
  readonly programs: (LinkedProgram | undefined)[];
  private readonly device: GlDevice;
  /** The generation of the context that the objects belong to. */
  readonly generation: number;
  private readonly plan: PlanHeader;
  private readonly textureSizes: Texture[];
  private readonly textures: WebGLTexture[] = [];
  /** Indices of added textures that were freed. */
  private readonly freeTextureIndices: number[] = [];
  /** The number of the Plan's own programs. */
  private readonly planProgramCount: number;
  /** Weights that another session has already uploaded. */
  private readonly sharedWeights = new Set<number>();
  /** State textures, which are never shared with other sessions. */
  private readonly carryTargets: ReadonlySet<number>;
  private readonly framebuffers = new Map<number, WebGLFramebuffer>();
  private readonly uniformBuffer: WebGLBuffer;
  /** The uniforms of passes with added programs. */
  private addedUniformBuffer: WebGLBuffer | undefined;

  private constructor(
    device: GlDevice,
    plan: PlanHeader,
    uniforms: Uint8Array,
    weights: WeightSource,
    programs: readonly LinkedProgram[],
  ) {
    this.device = device;
    this.generation = device.generation;
    this.plan = plan;
    this.programs = [...programs];
    this.planProgramCount = programs.length;
    const { resources } = device;
    this.textureSizes = resources.supportedTextures(plan, this.allPasses());
    this.uniformBuffer = resources.createBuffer(uniforms, "STATIC_DRAW");
    this.carryTargets = new Set(plan.carries.map(({ target }) => target));
    const hashes = new Map(plan.weights.map(({ texture }, k) => [texture, weights.weightHash(k)]));
    for (const [k, size] of this.textureSizes.entries()) {
      const hash = this.carryTargets.has(k) ? undefined : hashes.get(k);
      const shared = hash === undefined ? undefined : device.sharedTextures.acquire(hash, size);
      if (shared !== undefined) this.sharedWeights.add(k);
      this.textures.push(shared ?? resources.createTexture(size, size.format));
    }
  }

  /** Compile, allocate and upload; on failure everything is freed. */
  static async create(
    device: GlDevice,
    plan: PlanHeader,
    uniforms: Uint8Array,
    weights: WeightSource,
    onProgress: (progress: Progress) => void,
  ): Promise<PlanObjects> {
    const { generation } = device;
    const total = plan.programs.length;
    onProgress({ stage: "compile", done: 0, total });
    const programs = await device.programs.acquire(plan.programs, (done) =>
      onProgress({ stage: "compile", done, total }),
    );
    device.check(generation);
    const objects = new PlanObjects(device, plan, uniforms, weights, programs);
    try {
      await waitForIdle(device); // getError would block the page until everything is allocated
      device.check(generation);
      device.resources.checkMemory(objects.bytes);
      for (const pass of objects.allPasses()) objects.framebuffer(pass.output);
      await objects.uploadWeights(weights, onProgress);
      return objects;
    } catch (error) {
      objects.dispose();
      throw error;
    }
  }

  get bytes(): number {
    return textureBytes(this.textureSizes) + this.plan.uniform_bytes;
  }

  /** The size and format of a texture. */
  textureSize(index: number): Texture {
    const size = this.textureSizes[index];
    if (size === undefined) throw new PlanError(`the Plan has no texture ${index}`);
    return size;
  }

  /** Add a texture, numbered after the Plan's textures. Does not check for sufficient memory. */
  addTexture(size: Texture): number {
    const index = this.freeTextureIndices.pop() ?? this.textures.length;
    this.textures[index] = this.device.resources.createTexture(size, size.format);
    this.textureSizes[index] = size;
    return index;
  }

  /** Free an added texture. */
  removeTexture(index: number): void {
    const { resources } = this.device;
    const framebuffer = this.framebuffers.get(index);
    if (framebuffer !== undefined) resources.freeFramebuffer(framebuffer);
    this.framebuffers.delete(index);
    resources.freeTexture(this.texture(index));
    this.textureSizes[index] = { ...this.textureSize(index), width: 0 };
    this.freeTextureIndices.push(index);
  }

  /** Add a program, numbered after the Plan's programs; this object releases it. */
  addProgram(linked: LinkedProgram): number {
    return this.programs.push(linked) - 1;
  }

  removeProgram(index: number): void {
    const linked = this.programs[index];
    this.programs[index] = undefined;
    if (linked !== undefined) this.device.programs.release([linked]);
  }

  /**
   * Write the uniform blocks of passes with added programs: all of them, or only the bytes between `from` and `to`, if
   * only those changed.
   */
  writeAddedUniforms(blocks: Uint8Array, from = 0, to = blocks.length): void {
    const { gl, resources } = this.device;
    this.addedUniformBuffer ??= resources.createBuffer(0, "DYNAMIC_DRAW");
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.addedUniformBuffer);
    if (from === 0 && to === blocks.length) {
      gl.bufferData(gl.UNIFORM_BUFFER, blocks, gl.DYNAMIC_DRAW);
    } else gl.bufferSubData(gl.UNIFORM_BUFFER, from, blocks, from, to - from);
  }

  texture(index: number): WebGLTexture {
    const texture = this.textures[index];
    if (texture === undefined) throw new PlanError(`the Plan has no texture ${index}`);
    return texture;
  }

  /** Upload a whole texture now. */
  write(index: number, data: Float32Array): void {
    for (const _ of this.uploadChunks(index, data));
  }

  /** Replace a weight, sharing the new data under its hash if it has one; other users of the old data keep it. */
  replaceWeight(index: number, data: Float32Array, hash: string): void {
    const size = this.textureSizes[index];
    if (size === undefined) throw new PlanError(`the Plan has no texture ${index}`);
    this.textures[index] = this.device.sharedTextures.makeExclusive(this.texture(index), size);
    this.write(index, data);
    this.shareWeight(hash, index);
  }

  /**
   * Upload a rectangle of a weight; if others share the texture, upload all rows, from `getRows`, into a separate
   * texture.
   */
  patchWeight(patch: Patch, getRows: () => Float32Array): void {
    const size = this.textureSizes[patch.texture];
    if (size === undefined) throw new PlanError(`the Plan has no texture ${patch.texture}`);
    const { sharedTextures, resources } = this.device;
    const old = this.texture(patch.texture);
    const own = sharedTextures.makeExclusive(old, size);
    this.textures[patch.texture] = own;
    if (own === old) resources.uploadPatch(own, patch);
    else this.write(patch.texture, getRows());
  }

  /** A texture as a render target. */
  stagingTarget(index: number): StagingTarget {
    return { framebuffer: this.framebuffer(index), ...this.textureSize(index) };
  }

  /** Copy a texture to another one of the same size and format. */
  copy(source: number, target: number): void {
    const size = this.textureSizes[source];
    if (size === undefined) throw new PlanError(`the Plan has no texture ${source}`);
    this.device.resources.copyTexture(this.framebuffer(source), this.texture(target), size);
  }

  /** Submit one pass, or a band (x, y, width, height) of it. */
  draw(pass: Pass, band?: readonly [number, number, number, number]): void {
    const { gl, state } = this.device;
    const linked = this.programs[pass.program];
    if (linked === undefined) throw new PlanError(`the Plan has no program ${pass.program}`);
    state.useProgram(linked.program);
    state.bindTextures(pass.inputs.map((index) => this.texture(index)));
    state.bindFramebuffer(this.framebuffer(pass.output));
    state.setViewport(0, 0, pass.viewport[0], pass.viewport[1]);
    state.setScissor(band);
    const uniforms =
      pass.program < this.planProgramCount
        ? this.uniformBuffer
        : (this.addedUniformBuffer ?? this.uniformBuffer);
    state.bindUniforms(PASS_BINDING, uniforms, pass.uniforms, UNIFORM_BYTES);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    linked.hasDrawn = true;
  }

  /** Read the texels that `pass` has drawn, all or the first ones; blocks until they are available. */
  read(pass: Pass, width = pass.viewport[0], height = pass.viewport[1]): Float32Array {
    const { gl, state } = this.device;
    const data = new Float32Array(width * height * 4);
    state.bindFramebuffer(this.framebuffer(pass.output));
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.FLOAT, data);
    this.device.check(this.generation); // a lost context leaves `data` unchanged, without an error
    return data;
  }

  /** Draw bands of `pass`; the returned function reads their texels, once the GPU has finished. */
  sample(pass: Pass, spans: readonly TexelSpan[]): () => Float32Array<ArrayBuffer> {
    const { gl } = this.device;
    const texels = spans.reduce((sum, [, , width, height = 1]) => sum + width * height, 0);
    return startReadback(this.device, texels * 4, () => {
      let at = 0;
      for (const [x, y, width, height = 1] of spans) {
        this.draw(pass, [x, y, width, height]);
        gl.readPixels(x, y, width, height, gl.RGBA, gl.FLOAT, at);
        at += width * height * 16;
      }
    });
  }

  /**
   * Read all texels of a texture, layer after layer, in the order of `write`; the returned function has them once the
   * GPU has finished.
   */
  readTextureRows(index: number): () => Float32Array<ArrayBuffer> {
    const { gl, state } = this.device;
    const { width, height, layers } = this.textureSize(index);
    const bytes = width * height * 16;
    return startReadback(this.device, (bytes / 4) * layers, () => {
      state.bindFramebuffer(this.framebuffer(index));
      for (let layer = 0; layer < layers; layer++) {
        gl.readBuffer(gl.COLOR_ATTACHMENT0 + layer);
        gl.readPixels(0, 0, width, height, gl.RGBA, gl.FLOAT, layer * bytes);
      }
      gl.readBuffer(gl.COLOR_ATTACHMENT0);
    });
  }

  dispose(): void {
    const { device } = this;
    if (device.generation !== this.generation) return; // lost with its context
    const { resources } = device;
    for (const framebuffer of this.framebuffers.values()) resources.freeFramebuffer(framebuffer);
    for (const [index, texture] of this.textures.entries()) {
      if (!this.freeTextureIndices.includes(index)) device.sharedTextures.release(texture);
    }
    resources.freeBuffer(this.uniformBuffer);
    if (this.addedUniformBuffer !== undefined) resources.freeBuffer(this.addedUniformBuffer);
    device.programs.release(this.programs.filter((one) => one !== undefined));
  }

  private allPasses(): Pass[] {
    const { passes, inputs, values, parameters } = this.plan;
    return [
      ...passes,
      ...inputs.map((input) => input.pack_pass),
      ...[...values, ...parameters].map((value) => value.readback.draw_pass),
    ];
  }

  private framebuffer(index: number): WebGLFramebuffer {
    let framebuffer = this.framebuffers.get(index);
    if (framebuffer === undefined) {
      const { layers, format } = this.textureSizes[index] ?? {};
      framebuffer = this.device.resources.createFramebuffer(
        this.texture(index),
        layers ?? 1,
        format,
      );
      this.framebuffers.set(index, framebuffer);
    }
    return framebuffer;
  }

  private async uploadWeights(
    weights: WeightSource,
    onProgress: (progress: Progress) => void,
  ): Promise<void> {
    const total = this.plan.weights.length;
    let since = performance.now();
    for (const [done, { texture }] of this.plan.weights.entries()) {
      onProgress({ stage: "upload", done, total });
      if (this.sharedWeights.has(texture)) continue;
      for (const _ of this.uploadChunks(texture, weights.weightData(done))) {
        if (performance.now() - since < MAX_UPLOAD_BURST_MS) continue;
        // The browser's command buffer is limited: beyond its limit a call would block the page until there is space.
        await waitForFence(this.device);
        this.device.check(this.generation);
        since = performance.now();
      }
      this.shareWeight(weights.weightHash(done), texture);
    }
    onProgress({ stage: "upload", done: total, total });
  }

  /** Share a texture with other sessions, unless it is state that changes with each step. */
  private shareWeight(hash: string, index: number): void {
    const size = this.textureSizes[index];
    if (size === undefined || this.carryTargets.has(index)) return;
    this.device.sharedTextures.share(hash, size, this.texture(index));
  }

  private uploadChunks(index: number, data: Float32Array): Iterable<number> {
    const size = this.textureSizes[index];
    const texels = size === undefined ? 0 : size.width * size.height * size.layers;
    if (size === undefined || data.length !== texels * 4) {
      throw new PlanError(`texture ${index} takes ${texels * 4} numbers, not ${data.length}`);
    }
    return this.device.resources.upload(this.texture(index), size, data);
  }
}
