// Draws values into 2-D canvases: one pass a picture onto an atlas, and all pictures of an atlas from there at once.

import { mapTexels } from "../pictures/colormaps.ts";
import { MAP_TEXELS } from "../pictures/colortables.ts";
import type { Atlas } from "../pictures/mosaic.ts";
import type { Delivery } from "../plan/runtime.ts";
import { type PlanHeader, TEXEL_BYTES, UNIFORM_BYTES } from "../plan/schema.ts";
import {
  type Draw,
  type Drawing,
  drawingOf,
  type Picture,
  type ProgramName,
  programsFor,
  type Shown,
  TABLE_SIDE,
} from "./atlas.ts";
import type { GlDevice } from "./device.ts";
import { DISPLAY } from "./kernels.ts";
import { type Linked, PASS_BINDING } from "./programs.ts";
import type { Ranges } from "./ranges.ts";
import type { Size } from "./resources.ts";

/** What a drawing is made of, good for as long as the same is shown. */
interface Prepared {
  readonly drawing: Drawing;
  readonly shown: readonly Shown[];
  readonly delivery: Delivery;
  /** Where the limits of its colours lie. */
  readonly ranges: Ranges;
  readonly table: WebGLTexture;
}

/** What pictures are drawn on that are read back. */
interface RenderTarget {
  readonly texture: WebGLTexture;
  readonly framebuffer: WebGLFramebuffer;
  readonly width: number;
  readonly height: number;
}

/** Pixels along a side of the smallest render target; larger ones are its double, and so on. */
const PAPER_SIDE = 1024;

/** What a Plan's pictures are drawn with. */
export const displayPrograms = (plan: PlanHeader) =>
  programsFor(plan.values).map((name) => DISPLAY[name]);

export class Display {
  private readonly device: GlDevice;
  private readonly linked: ReadonlyMap<ProgramName, Linked>;
  private readonly mapBytes: number;
  private readonly maps: WebGLTexture;
  private readonly buffer: WebGLBuffer;
  private prepared: Prepared | undefined;
  private table: { readonly texture: WebGLTexture; readonly size: Size };
  private renderTarget: RenderTarget | undefined;
  private pixels: ImageData | undefined;

  private constructor(device: GlDevice, linked: ReadonlyMap<ProgramName, Linked>) {
    const { gl, resources } = device;
    this.device = device;
    this.linked = linked;
    this.buffer = resources.buffer(0, "DYNAMIC_DRAW");
    this.table = this.makeTable({ width: TABLE_SIDE, height: TABLE_SIDE, layers: 1 });
    const texels = mapTexels();
    this.mapBytes = texels.byteLength;
    const size = { width: MAP_TEXELS, height: 1, layers: texels.length / MAP_TEXELS / 4 };
    this.maps = resources.texture(size, "rgba8");
    gl.texSubImage3D(
      gl.TEXTURE_2D_ARRAY, 0, 0, 0, 0, size.width, 1, size.layers, gl.RGBA, gl.UNSIGNED_BYTE, texels,
    ); // biome-ignore format: one call's arguments
  }

  static async make(device: GlDevice, plan: PlanHeader): Promise<Display> {
    const { generation } = device;
    const names = programsFor(plan.values);
    const linked = await device.programs.acquire(names.map((name) => DISPLAY[name]));
    device.check(generation);
    const named = names.flatMap((name, k) => (linked[k] ? [[name, linked[k]] as const] : []));
    return new Display(device, new Map(named));
  }

  get bytes(): number {
    const { width, height, layers } = this.table.size;
    const numbers = this.prepared?.drawing.numbers.byteLength ?? 0;
    const renderTarget =
      this.renderTarget === undefined ? 0 : this.renderTarget.width * this.renderTarget.height * 4;
    return this.mapBytes + width * height * layers * TEXEL_BYTES.rgba32f + numbers + renderTarget;
  }

  /** Draws a pixel with each program, as `Ranges.warm` does. */
  warm(ranges: Ranges, delivery: Delivery): void {
    const { gl, state } = this.device;
    const { texture } = ranges.found;
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.buffer);
    gl.bufferData(gl.UNIFORM_BUFFER, UNIFORM_BYTES, gl.DYNAMIC_DRAW);
    if (delivery === "readback") this.renderTarget = this.makeRenderTarget(1, 1);
    this.begin(delivery, 1, 1);
    state.viewport(0, 0, 1, 1);
    state.uniforms(PASS_BINDING, this.buffer, 0, UNIFORM_BYTES);
    for (const [unit, one] of [texture, texture, this.maps, texture].entries()) {
      state.texture(unit, one);
    }
    for (const { program } of this.linked.values()) {
      state.use(program);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    }
  }

  draw(prepared: Prepared, ranges: Ranges): void {
    for (const atlas of prepared.drawing.atlases) {
      this.drawAtlas(atlas, prepared, ranges);
      if (this.device.gl.isContextLost()) return; // the old picture stays until all is rebuilt
      if (prepared.delivery === "canvas") this.deliver(atlas);
      else this.readBack(atlas);
    }
  }

  dispose(): void {
    const { resources, programs } = this.device;
    resources.freeTexture(this.maps);
    resources.freeTexture(this.table.texture);
    this.freeRenderTarget(this.renderTarget);
    resources.freeBuffer(this.buffer);
    programs.release([...this.linked.values()]);
  }

  /** Usually the same is shown as the last time, with other values. What is new is asked for memory, which waits. */
  prepare(shown: readonly Shown[], ranges: Ranges, delivery: Delivery): Prepared {
    const { prepared } = this;
    const same = prepared?.delivery === delivery && prepared.ranges === ranges;
    if (same && sameShown(prepared.shown, shown)) return prepared;
    this.prepared = undefined;
    const { gl, resources } = this.device;
    const drawing = drawingOf(shown, ranges, delivery);
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.buffer);
    gl.bufferData(gl.UNIFORM_BUFFER, drawing.numbers, gl.DYNAMIC_DRAW);
    const table = this.tableFor(drawing.table);
    if (delivery === "readback") this.renderTargetFor(drawing.atlases);
    for (const _ of resources.upload(table, drawing.table, drawing.table.data));
    this.prepared = { drawing, shown, delivery, ranges, table };
    return this.prepared;
  }

  /** The last one where it has the right size, as most have. */
  private tableFor(size: Size): WebGLTexture {
    const { resources } = this.device;
    const { width, height, layers } = this.table.size;
    if (width !== size.width || height !== size.height || layers !== size.layers) {
      const made = this.makeTable(size);
      this.admit(() => resources.freeTexture(made.texture));
      resources.freeTexture(this.table.texture);
      this.table = made;
    }
    return this.table.texture;
  }

  /** The last one where all atlases have room on it. */
  private renderTargetFor(atlases: readonly Atlas<Picture>[]): void {
    const [width, height] = [
      Math.max(...atlases.map((one) => one.width)),
      Math.max(...atlases.map((one) => one.height)),
    ];
    if (
      this.renderTarget !== undefined &&
      this.renderTarget.width >= width &&
      this.renderTarget.height >= height
    )
      return;
    const made = this.makeRenderTarget(width, height);
    this.admit(() => this.freeRenderTarget(made));
    this.freeRenderTarget(this.renderTarget);
    this.renderTarget = made;
  }

  /** There must be room for what was just made, and for the numbers; else it is freed. */
  private admit(free: () => void): void {
    try {
      this.device.resources.checkMemory();
    } catch (error) {
      free();
      throw error;
    }
  }

  private makeTable({ width, height, layers }: Size) {
    const size = { width, height, layers };
    return { texture: this.device.resources.texture(size, "rgba32f"), size };
  }

  private makeRenderTarget(width: number, height: number): RenderTarget {
    const { resources } = this.device;
    const side = (pixels: number) => Math.max(PAPER_SIDE, 2 ** Math.ceil(Math.log2(pixels)));
    const size = { width: side(width), height: side(height), layers: 1 };
    const texture = resources.texture(size, "rgba8");
    return { ...size, texture, framebuffer: resources.framebuffer(texture, 1, "rgba8") };
  }

  private freeRenderTarget(renderTarget: RenderTarget | undefined): void {
    if (renderTarget === undefined) return;
    this.device.resources.freeFramebuffer(renderTarget.framebuffer);
    this.device.resources.freeTexture(renderTarget.texture);
  }

  /** The next draws go to the device's canvas, in this size, or onto the render target. */
  private begin(delivery: Delivery, width: number, height: number): void {
    const { canvas, state } = this.device;
    state.scissor(undefined);
    if (delivery === "readback") {
      state.target(this.renderTarget?.framebuffer ?? null);
      return;
    }
    // The buffer is new after each transfer anyway; one that fits is the cheapest.
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    state.target(null);
  }

  private drawAtlas(
    { width, height, draws }: Atlas<Picture> & { readonly draws: readonly Draw[] },
    { delivery, table }: Prepared,
    ranges: Ranges,
  ): void {
    const { gl, state } = this.device;
    this.begin(delivery, width, height);
    const always = [table, this.maps, ranges.found.texture];
    for (const [k, one] of always.entries()) state.texture(k + 1, one);
    for (const { texture, area, program, at } of draws) {
      const linked = this.linked.get(program);
      if (linked !== undefined) state.use(linked.program);
      state.texture(0, texture);
      state.viewport(...area);
      state.uniforms(PASS_BINDING, this.buffer, at, UNIFORM_BYTES);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    }
  }

  /** From the device's canvas to the pictures' own, in one transfer where the browser can. */
  private deliver(atlas: Atlas<Picture>): void {
    const { canvas } = this.device;
    const bitmap = "transferToImageBitmap" in canvas ? canvas.transferToImageBitmap() : undefined;
    for (const { item, x, y } of atlas.placed) {
      const { width, height } = item;
      const context = this.context(item);
      if (context === null) continue;
      context.globalCompositeOperation = "copy"; // gaps stay transparent
      context.imageSmoothingEnabled = false;
      context.drawImage(bitmap ?? canvas, x, y, width, height, 0, 0, width, height);
    }
    bitmap?.close();
  }

  /** All pixels of an atlas to this thread, and from there to the canvases. */
  private readBack({ width, height, placed }: Atlas<Picture>): void {
    const { gl } = this.device;
    const { pixels } = this;
    const image =
      pixels?.width === width && pixels.height === height ? pixels : new ImageData(width, height);
    this.pixels = image;
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, image.data);
    if (gl.isContextLost()) return;
    for (const { item, x, y } of placed) {
      this.context(item)?.putImageData(image, -x, -y, x, y, item.width, item.height);
    }
  }

  /** Of the canvas of a picture, which gets its size. */
  private context({ job: { canvas }, width, height }: Picture): CanvasRenderingContext2D | null {
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    // Where all is drawn by the processor, a canvas in its memory is drawn at once.
    return canvas.getContext("2d", { willReadFrequently: this.device.capabilities.software });
  }
}

function sameShown(a: readonly Shown[], b: readonly Shown[]): boolean {
  const same = (one: Shown, other: Shown | undefined) =>
    one.job === other?.job && one.texture === other.texture;
  return a.length === b.length && a.every((one, k) => same(one, b[k]));
}
