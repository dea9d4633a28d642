// Draws values into 2-D canvases: one pass a picture into the device's canvas, one bitmap a sheet from there.
import { TEXEL_BYTES, UNIFORM_BYTES } from "../plan.ts";
import { MAP_TEXELS, mapTexels } from "./colormaps.ts";
import type { GlDevice } from "./device.ts";
import { DISPLAY } from "./kernels.ts";
import type { Sheet } from "./mosaic.ts";
import { type Linked, PASS_BINDING } from "./programs.ts";
import type { Ranges } from "./ranges.ts";
import type { Size } from "./resources.ts";
import {
  type Draw,
  type Drawing,
  drawingOf,
  type Picture,
  type Shown,
  TABLE_SIDE,
} from "./sheets.ts";
import type { Delivery } from "./types.ts";

/** What a drawing is made of, good for as long as the same is shown. */
interface Prepared {
  readonly drawing: Drawing;
  readonly shown: readonly Shown[];
  readonly table: WebGLTexture;
}

export class Display {
  private readonly device: GlDevice;
  private readonly linked: readonly Linked[];
  private readonly mapBytes: number;
  private readonly maps: WebGLTexture;
  private readonly buffer: WebGLBuffer;
  private prepared: Prepared | undefined;
  private table: { readonly texture: WebGLTexture; readonly size: Size };
  private paper: OffscreenCanvas | undefined;

  private constructor(device: GlDevice, linked: readonly Linked[]) {
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

  static async make(device: GlDevice): Promise<Display> {
    const { generation } = device;
    const linked = await device.programs.acquire(DISPLAY);
    device.check(generation);
    return new Display(device, linked);
  }

  get bytes(): number {
    const { width, height, layers } = this.table.size;
    const numbers = this.prepared?.drawing.numbers.byteLength ?? 0;
    return this.mapBytes + width * height * layers * TEXEL_BYTES.rgba32f + numbers;
  }

  /** Draws a pixel with each program, as `Ranges.warm` does. */
  warm(ranges: Ranges): void {
    const { gl, state } = this.device;
    const { texture } = ranges.found;
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.buffer);
    gl.bufferData(gl.UNIFORM_BUFFER, UNIFORM_BYTES, gl.DYNAMIC_DRAW);
    state.target(null);
    state.scissor(undefined);
    state.viewport(0, 0, 1, 1);
    state.uniforms(PASS_BINDING, this.buffer, 0, UNIFORM_BYTES);
    for (const [unit, one] of [texture, texture, this.maps, texture].entries()) {
      state.texture(unit, one);
    }
    for (const { program } of this.linked) {
      state.use(program);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    }
  }

  draw(prepared: Prepared, ranges: Ranges, delivery: Delivery): void {
    for (const sheet of prepared.drawing.sheets) {
      this.drawSheet(sheet, prepared, ranges);
      if (this.device.gl.isContextLost()) return; // the old picture stays until all is rebuilt
      if (delivery === "canvas") this.deliver(sheet);
      else this.readBack(sheet);
    }
  }

  dispose(): void {
    const { resources, programs } = this.device;
    resources.freeTexture(this.maps);
    resources.freeTexture(this.table.texture);
    resources.freeBuffer(this.buffer);
    programs.release(this.linked);
  }

  /** Usually the same is shown as the last time, with other values. What is new is asked for memory, which waits. */
  prepare(shown: readonly Shown[], ranges: Ranges): Prepared {
    const { prepared } = this;
    if (prepared !== undefined && sameShown(prepared.shown, shown)) return prepared;
    this.prepared = undefined;
    const { gl, resources } = this.device;
    const drawing = drawingOf(shown, ranges);
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.buffer);
    gl.bufferData(gl.UNIFORM_BUFFER, drawing.numbers, gl.DYNAMIC_DRAW);
    const table = this.tableFor(drawing.table);
    for (const _ of resources.upload(table, drawing.table, drawing.table.data));
    this.prepared = { drawing, shown, table };
    return this.prepared;
  }

  /** The last one where it has the right size, as most have; there must be room for another, and for the numbers. */
  private tableFor(size: Size): WebGLTexture {
    const { resources } = this.device;
    const { width, height, layers } = this.table.size;
    if (width !== size.width || height !== size.height || layers !== size.layers) {
      const made = this.makeTable(size);
      try {
        resources.checkMemory();
      } catch (error) {
        resources.freeTexture(made.texture);
        throw error;
      }
      resources.freeTexture(this.table.texture);
      this.table = made;
    }
    return this.table.texture;
  }

  private makeTable({ width, height, layers }: Size) {
    const size = { width, height, layers };
    return { texture: this.device.resources.texture(size, "rgba32f"), size };
  }

  private drawSheet(
    { width, height, draws }: Sheet<Picture> & { readonly draws: readonly Draw[] },
    { table }: Prepared,
    ranges: Ranges,
  ): void {
    const { canvas, gl, state } = this.device;
    // The buffer is new after each transfer anyway; one that fits is the cheapest.
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    state.target(null);
    state.scissor(undefined);
    const always = [table, this.maps, ranges.found.texture];
    for (const [k, one] of always.entries()) state.texture(k + 1, one);
    for (const { texture, area, program, at, mask } of draws) {
      const linked = this.linked[program];
      if (linked !== undefined) state.use(linked.program);
      state.texture(0, texture);
      state.viewport(...area);
      state.uniforms(PASS_BINDING, this.buffer, at, UNIFORM_BYTES);
      if (mask !== undefined) gl.colorMask(...mask, true);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
      if (mask !== undefined) gl.colorMask(true, true, true, true);
    }
  }

  /** From the device's canvas to the pictures' own, in one transfer where the browser can. */
  private deliver(sheet: Sheet<Picture>): void {
    const { canvas } = this.device;
    const bitmap = "transferToImageBitmap" in canvas ? canvas.transferToImageBitmap() : undefined;
    const source = (bitmap && this.fetched(bitmap, sheet)) ?? bitmap ?? canvas;
    for (const { item, x, y } of sheet.placed) {
      const { width, height, job } = item;
      const context = copying(job.canvas, width, height, job.canvas.getContext("2d"));
      context?.drawImage(source, x, y, width, height, 0, 0, width, height);
    }
    bitmap?.close();
  }

  /** What a program without the browser's help would do: all pixels to this thread, and from there to the canvases. */
  private readBack({ width, height, placed }: Sheet<Picture>): void {
    const { gl } = this.device;
    const upright = new Uint8ClampedArray(width * height * 4);
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, upright);
    for (const { item, x, y } of placed) {
      const picture = new ImageData(item.width, item.height);
      for (let row = 0; row < item.height; row++) {
        const from = ((height - 1 - y - row) * width + x) * 4; // WebGL counts from below
        picture.data.set(upright.subarray(from, from + item.width * 4), row * item.width * 4);
      }
      const { canvas } = item.job;
      copying(canvas, item.width, item.height, canvas.getContext("2d"))?.putImageData(
        picture,
        0,
        0,
      );
    }
  }

  /** Where the browser paints on the processor, each canvas would fetch all of a sheet: then this does, once. */
  private fetched(bitmap: ImageBitmap, { placed }: Sheet<Picture>): OffscreenCanvas | undefined {
    if (!this.device.capabilities.software || placed.length < 2) return undefined;
    this.paper ??= new OffscreenCanvas(1, 1);
    const { paper } = this;
    const context = paper.getContext("2d", { willReadFrequently: true });
    copying(paper, bitmap.width, bitmap.height, context)?.drawImage(bitmap, 0, 0);
    return context === null ? undefined : paper;
  }
}

type Context2d = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** A canvas of this size whose pixels are replaced by what is drawn: gaps stay transparent. */
function copying<T extends Context2d>(
  canvas: HTMLCanvasElement | OffscreenCanvas,
  width: number,
  height: number,
  context: T | null,
): T | null {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  if (context === null) return null;
  context.globalCompositeOperation = "copy";
  context.imageSmoothingEnabled = false;
  return context;
}

function sameShown(a: readonly Shown[], b: readonly Shown[]): boolean {
  return a.length === b.length && a.every(({ job }, k) => job === b[k]?.job);
}
