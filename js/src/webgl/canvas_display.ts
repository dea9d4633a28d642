// Draws values into 2-D canvases: one pass per picture onto an atlas, then all pictures of an atlas to their canvases
// at once.

import { colorMapTexels } from "../pictures/colormaps.ts";
import { COLORMAP_TEXEL_COUNT } from "../pictures/colortables.ts";
import type { Atlas } from "../pictures/mosaic.ts";
import type { CanvasTransfer } from "../plan/runtime.ts";
import { type PlanHeader, TEXEL_BYTES, UNIFORM_BYTES } from "../plan/schema.ts";
import {
  type AtlasDrawing,
  type AtlasPicture,
  composeDrawing,
  type DrawItem,
  MIN_MAP_TABLE_SIDE,
  type PictureDraw,
  type ProgramName,
  programNames,
} from "./atlas_drawing.ts";
import type { ColorRanges } from "./color_ranges.ts";
import type { GlDevice } from "./gl_device.ts";
import type { TextureSize } from "./gl_resources.ts";
import { DISPLAY_PROGRAMS } from "./kernels.ts";
import { type LinkedProgram, PASS_BINDING } from "./program_cache.ts";

/** A prepared drawing, reusable while the same items are shown. */
interface PreparedDrawing {
  readonly drawing: AtlasDrawing;
  readonly items: readonly DrawItem[];
  readonly canvasTransfer: CanvasTransfer;
  /** The ranges that the drawing's colours refer to. */
  readonly ranges: ColorRanges;
  readonly mapTable: WebGLTexture;
}

/** The render target of pictures that are read back. */
interface RenderTarget {
  readonly texture: WebGLTexture;
  readonly framebuffer: WebGLFramebuffer;
  readonly width: number;
  readonly height: number;
}

/** The side of the smallest render target, in pixels; larger ones double it repeatedly. */
const MIN_TARGET_SIDE = 1024;

/** The programs that a Plan's pictures need. */
export const displayPrograms = (plan: PlanHeader) =>
  programNames(plan.values).map((name) => DISPLAY_PROGRAMS[name]);

export class CanvasDisplay {
  private readonly device: GlDevice;
  private readonly linkedPrograms: ReadonlyMap<ProgramName, LinkedProgram>;
  private readonly colorMapBytes: number;
  private readonly colorMaps: WebGLTexture;
  private readonly uniformBuffer: WebGLBuffer;
  private prepared: PreparedDrawing | undefined;
  private mapTable: { readonly texture: WebGLTexture; readonly size: TextureSize };
  private renderTarget: RenderTarget | undefined;
  private readbackPixels: ImageData | undefined;

  private constructor(device: GlDevice, linked: ReadonlyMap<ProgramName, LinkedProgram>) {
    const { gl, resources } = device;
    this.device = device;
    this.linkedPrograms = linked;
    this.uniformBuffer = resources.createBuffer(0, "DYNAMIC_DRAW");
    this.mapTable = this.createMapTable({
      width: MIN_MAP_TABLE_SIDE,
      height: MIN_MAP_TABLE_SIDE,
      layers: 1,
    });
    const texels = colorMapTexels();
    this.colorMapBytes = texels.byteLength;
    const size = {
      width: COLORMAP_TEXEL_COUNT,
      height: 1,
      layers: texels.length / COLORMAP_TEXEL_COUNT / 4,
    };
    this.colorMaps = resources.createTexture(size, "rgba8");
    gl.texSubImage3D(
      gl.TEXTURE_2D_ARRAY, 0, 0, 0, 0, size.width, 1, size.layers, gl.RGBA, gl.UNSIGNED_BYTE, texels,
    ); // biome-ignore format: one call's arguments
  }

  static async create(device: GlDevice, plan: PlanHeader): Promise<CanvasDisplay> {
    const { generation } = device;
    const names = programNames(plan.values);
    const linked = await device.programs.acquire(names.map((name) => DISPLAY_PROGRAMS[name]));
    device.check(generation);
    const named = names.flatMap((name, k) => (linked[k] ? [[name, linked[k]] as const] : []));
    return new CanvasDisplay(device, new Map(named));
  }

  get bytes(): number {
    const { width, height, layers } = this.mapTable.size;
    const numbers = this.prepared?.drawing.uniforms.byteLength ?? 0;
    const renderTarget =
      this.renderTarget === undefined ? 0 : this.renderTarget.width * this.renderTarget.height * 4;
    return (
      this.colorMapBytes + width * height * layers * TEXEL_BYTES.rgba32f + numbers + renderTarget
    );
  }

  /** Draw one pixel with each program, as `ColorRanges.warmUp` does. */
  warmUp(ranges: ColorRanges, canvasTransfer: CanvasTransfer): void {
    const { gl, state } = this.device;
    const { texture } = ranges.results;
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.uniformBuffer);
    gl.bufferData(gl.UNIFORM_BUFFER, UNIFORM_BYTES, gl.DYNAMIC_DRAW);
    if (canvasTransfer === "readback") this.renderTarget = this.createRenderTarget(1, 1);
    this.bindTarget(canvasTransfer, 1, 1);
    state.setViewport(0, 0, 1, 1);
    state.bindUniforms(PASS_BINDING, this.uniformBuffer, 0, UNIFORM_BYTES);
    for (const [unit, one] of [texture, texture, this.colorMaps, texture].entries()) {
      state.bindTexture(unit, one);
    }
    for (const { program } of this.linkedPrograms.values()) {
      state.useProgram(program);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    }
  }

  draw(prepared: PreparedDrawing, ranges: ColorRanges): void {
    for (const atlas of prepared.drawing.atlases) {
      this.drawAtlas(atlas, prepared, ranges);
      if (this.device.gl.isContextLost()) return; // keep the old picture until the rebuild is done
      if (prepared.canvasTransfer === "canvas") this.transferToCanvases(atlas);
      else this.readBack(atlas);
    }
  }

  dispose(): void {
    const { resources, programs } = this.device;
    resources.freeTexture(this.colorMaps);
    resources.freeTexture(this.mapTable.texture);
    this.freeRenderTarget(this.renderTarget);
    resources.freeBuffer(this.uniformBuffer);
    programs.release([...this.linkedPrograms.values()]);
  }

  /**
   * Usually the same items are shown again with other values, so the last preparation is reused. New resources need a
   * memory check, which blocks.
   */
  prepare(
    items: readonly DrawItem[],
    ranges: ColorRanges,
    canvasTransfer: CanvasTransfer,
  ): PreparedDrawing {
    const { prepared } = this;
    const same = prepared?.canvasTransfer === canvasTransfer && prepared.ranges === ranges;
    if (same && haveSameItems(prepared.items, items)) return prepared;
    this.prepared = undefined;
    const { gl, resources } = this.device;
    const drawing = composeDrawing(items, ranges, canvasTransfer);
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.uniformBuffer);
    gl.bufferData(gl.UNIFORM_BUFFER, drawing.uniforms, gl.DYNAMIC_DRAW);
    const mapTable = this.ensureMapTable(drawing.mapTable);
    if (canvasTransfer === "readback") this.ensureRenderTarget(drawing.atlases);
    for (const _ of resources.upload(mapTable, drawing.mapTable, drawing.mapTable.data));
    this.prepared = { drawing, items, canvasTransfer, ranges, mapTable };
    return this.prepared;
  }

  /** The current table if it has the right size, as usual; else a new one. */
  private ensureMapTable(size: TextureSize): WebGLTexture {
    const { resources } = this.device;
    const { width, height, layers } = this.mapTable.size;
    if (width !== size.width || height !== size.height || layers !== size.layers) {
      const made = this.createMapTable(size);
      this.checkMemory(() => resources.freeTexture(made.texture));
      resources.freeTexture(this.mapTable.texture);
      this.mapTable = made;
    }
    return this.mapTable.texture;
  }

  /** Keep the current render target if all atlases fit; else create a larger one. */
  private ensureRenderTarget(atlases: readonly Atlas<AtlasPicture>[]): void {
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
    const made = this.createRenderTarget(width, height);
    this.checkMemory(() => this.freeRenderTarget(made));
    this.freeRenderTarget(this.renderTarget);
    this.renderTarget = made;
  }

  /** Check that the last allocation succeeded; on failure free it and throw. */
  private checkMemory(free: () => void): void {
    try {
      this.device.resources.checkMemory();
    } catch (error) {
      free();
      throw error;
    }
  }

  private createMapTable({ width, height, layers }: TextureSize) {
    const size = { width, height, layers };
    return { texture: this.device.resources.createTexture(size, "rgba32f"), size };
  }

  private createRenderTarget(width: number, height: number): RenderTarget {
    const { resources } = this.device;
    const side = (pixels: number) => Math.max(MIN_TARGET_SIDE, 2 ** Math.ceil(Math.log2(pixels)));
    const size = { width: side(width), height: side(height), layers: 1 };
    const texture = resources.createTexture(size, "rgba8");
    return { ...size, texture, framebuffer: resources.createFramebuffer(texture, 1, "rgba8") };
  }

  private freeRenderTarget(renderTarget: RenderTarget | undefined): void {
    if (renderTarget === undefined) return;
    this.device.resources.freeFramebuffer(renderTarget.framebuffer);
    this.device.resources.freeTexture(renderTarget.texture);
  }

  /** Direct the next draws to the device's canvas, resized, or to the render target. */
  private bindTarget(canvasTransfer: CanvasTransfer, width: number, height: number): void {
    const { canvas, state } = this.device;
    state.setScissor(undefined);
    if (canvasTransfer === "readback") {
      state.bindFramebuffer(this.renderTarget?.framebuffer ?? null);
      return;
    }
    // The drawing buffer is new after each transfer anyway; an exact size is the cheapest.
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    state.bindFramebuffer(null);
  }

  private drawAtlas(
    { width, height, draws }: Atlas<AtlasPicture> & { readonly draws: readonly PictureDraw[] },
    { canvasTransfer, mapTable }: PreparedDrawing,
    ranges: ColorRanges,
  ): void {
    const { gl, state } = this.device;
    this.bindTarget(canvasTransfer, width, height);
    const always = [mapTable, this.colorMaps, ranges.results.texture];
    for (const [k, one] of always.entries()) state.bindTexture(k + 1, one);
    for (const { texture, area, program, uniformOffset } of draws) {
      const linked = this.linkedPrograms.get(program);
      if (linked !== undefined) state.useProgram(linked.program);
      state.bindTexture(0, texture);
      state.setViewport(...area);
      state.bindUniforms(PASS_BINDING, this.uniformBuffer, uniformOffset, UNIFORM_BYTES);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    }
  }

  /**
   * Copy from the device's canvas to the pictures' canvases, by one ImageBitmap transfer if the browser supports it.
   */
  private transferToCanvases(atlas: Atlas<AtlasPicture>): void {
    const { canvas } = this.device;
    const bitmap = "transferToImageBitmap" in canvas ? canvas.transferToImageBitmap() : undefined;
    for (const { item, x, y } of atlas.packedItems) {
      const { width, height } = item;
      const context = this.canvasContext(item);
      if (context === null) continue;
      context.globalCompositeOperation = "copy"; // gaps stay transparent
      context.imageSmoothingEnabled = false;
      context.drawImage(bitmap ?? canvas, x, y, width, height, 0, 0, width, height);
    }
    bitmap?.close();
  }

  /** Read all pixels of an atlas back to this thread, and put them into the canvases. */
  private readBack({ width, height, packedItems }: Atlas<AtlasPicture>): void {
    const { gl } = this.device;
    const { readbackPixels } = this;
    const image =
      readbackPixels?.width === width && readbackPixels.height === height
        ? readbackPixels
        : new ImageData(width, height);
    this.readbackPixels = image;
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, image.data);
    if (gl.isContextLost()) return;
    for (const { item, x, y } of packedItems) {
      this.canvasContext(item)?.putImageData(image, -x, -y, x, y, item.width, item.height);
    }
  }

  /** The 2-D context of a picture's canvas, which is resized to fit. */
  private canvasContext({
    job: { canvas },
    width,
    height,
  }: AtlasPicture): CanvasRenderingContext2D | null {
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    // With a software renderer, canvases in CPU memory are faster.
    return canvas.getContext("2d", { willReadFrequently: this.device.capabilities.isSoftware });
  }
}

function haveSameItems(a: readonly DrawItem[], b: readonly DrawItem[]): boolean {
  const same = (one: DrawItem, other: DrawItem | undefined) =>
    one.job === other?.job && one.texture === other.texture;
  return a.length === b.length && a.every((one, k) => same(one, b[k]));
}
