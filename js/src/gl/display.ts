// Draws values into 2-D canvases: one pass a picture into the device's canvas, one bitmap a sheet from there.
import { UNIFORM_BYTES, type Value } from "../plan.ts";
import { MAP_TEXELS, mapLayer, mapTexels } from "./colormaps.ts";
import type { GlDevice } from "./device.ts";
import { DISPLAY } from "./kernels.ts";
import { type Mosaic, mosaicOf, type Placed, pack, type Sheet } from "./mosaic.ts";
import { type Numbers, writeNumbers } from "./numbers.ts";
import { CHANNELS_BINDING, type Linked, PASS_BINDING } from "./programs.ts";
import { RANGE_COLUMNS, type Ranges } from "./ranges.ts";
import type { DrawJob } from "./types.ts";

/** Pixels along a side of the device's canvas; larger ones are slow everywhere. */
const MOST_SIDE = 4096;
/** Channels that one pass takes, as display.glsl declares them. */
const LISTED = 256;
const LISTED_BYTES = LISTED * 4;
/** Reads along each axis for maps drawn smaller than they are. */
const MOST_TAPS = 4;
/** display.glsl's i[3].y. */
const USES = { signed: 0, spread: 1, symmetric: 2 } as const;
const VERTICES = 6;
const MODES = ["channel", "layer", "fixed"] as const;

/** A job with the value it shows. */
export interface Shown {
  readonly job: DrawJob;
  readonly value: Value;
  readonly texture: WebGLTexture;
}

type Picture = Mosaic & Shown;

export class Display {
  readonly bytes = mapTexels().byteLength;
  private readonly device: GlDevice;
  private readonly linked: readonly Linked[];
  private readonly maps: WebGLTexture;
  private readonly buffer: WebGLBuffer;

  private constructor(device: GlDevice, linked: readonly Linked[]) {
    const { gl, resources } = device;
    this.device = device;
    this.linked = linked;
    this.buffer = resources.buffer(0, "DYNAMIC_DRAW");
    const texels = mapTexels();
    const layers = texels.length / MAP_TEXELS / 4;
    this.maps = resources.texture({ width: MAP_TEXELS, height: 1, layers }, "rgba8");
    gl.texSubImage3D(
      gl.TEXTURE_2D_ARRAY,
      0,
      0,
      0,
      0,
      MAP_TEXELS,
      1,
      layers,
      gl.RGBA,
      gl.UNSIGNED_BYTE,
      texels,
    );
  }

  static async make(device: GlDevice): Promise<Display> {
    const { generation } = device;
    const linked = await device.programs.acquire([DISPLAY]);
    device.check(generation);
    return new Display(device, linked);
  }

  draw(shown: readonly Shown[], ranges: Ranges): void {
    const pictures = shown.map((one): Picture => {
      const { job, value } = one;
      const [, , h, w] = value.layout.frame;
      const count = job.as === "rgb" ? 1 : job.channels.length;
      const mosaic = mosaicOf(h, w, { ...job, count });
      if (Math.max(mosaic.width, mosaic.height) > MOST_SIDE) {
        throw new RangeError(
          `a picture of ${value.key} would be ${mosaic.width} × ${mosaic.height} pixels; ` +
            `at most ${MOST_SIDE} a side: choose a smaller scale or fewer channels`,
        );
      }
      return { ...mosaic, ...one };
    });
    for (const sheet of pack(pictures, MOST_SIDE)) {
      this.drawSheet(sheet, ranges);
      if (this.device.gl.isContextLost()) return; // the old picture stays until all is rebuilt
      this.deliver(sheet);
    }
  }

  dispose(): void {
    const { resources, programs } = this.device;
    resources.freeTexture(this.maps);
    resources.freeBuffer(this.buffer);
    programs.release(this.linked);
  }

  private drawSheet(sheet: Sheet<Picture>, ranges: Ranges): void {
    const { canvas, gl, state } = this.device;
    const [linked] = this.linked;
    if (linked === undefined) return;
    // The buffer is new after each transfer anyway; one that fits is the cheapest.
    if (canvas.width !== sheet.width) canvas.width = sheet.width;
    if (canvas.height !== sheet.height) canvas.height = sheet.height;
    const parts = sheet.placed.flatMap((placed) => partsOf(placed, sheet.height, ranges));
    const block = new ArrayBuffer(parts.length * (UNIFORM_BYTES + LISTED_BYTES));
    for (const [k, { numbers, channels }] of parts.entries()) {
      const at = k * (UNIFORM_BYTES + LISTED_BYTES);
      writeNumbers(block, at, numbers);
      new Int32Array(block, at + UNIFORM_BYTES, LISTED).set(channels);
    }
    gl.bindBuffer(gl.UNIFORM_BUFFER, this.buffer);
    gl.bufferData(gl.UNIFORM_BUFFER, block, gl.DYNAMIC_DRAW);
    state.target(null);
    state.scissor(undefined);
    state.use(linked.program);
    for (const [k, { area, texture, channels, mask }] of parts.entries()) {
      const at = k * (UNIFORM_BYTES + LISTED_BYTES);
      const inputs = [texture, this.maps, ranges.channels.texture, ranges.shared.texture];
      for (const [unit, one] of inputs.entries()) state.texture(unit, one);
      state.viewport(...area);
      state.uniforms(PASS_BINDING, this.buffer, at, UNIFORM_BYTES);
      state.uniforms(CHANNELS_BINDING, this.buffer, at + UNIFORM_BYTES, LISTED_BYTES);
      if (mask !== undefined) gl.colorMask(...mask, true);
      gl.drawArrays(gl.TRIANGLES, 0, VERTICES * channels.length);
      if (mask !== undefined) gl.colorMask(true, true, true, true);
    }
  }

  /** From the device's canvas to the pictures' own, in one transfer where the browser can. */
  private deliver(sheet: Sheet<Picture>): void {
    const { canvas } = this.device;
    const source = "transferToImageBitmap" in canvas ? canvas.transferToImageBitmap() : canvas;
    for (const { item, x, y } of sheet.placed) {
      const { canvas: shown } = item.job;
      if (shown.width !== item.width) shown.width = item.width;
      if (shown.height !== item.height) shown.height = item.height;
      const context = shown.getContext("2d");
      if (context === null) continue;
      context.globalCompositeOperation = "copy"; // gaps stay transparent
      context.imageSmoothingEnabled = false;
      context.drawImage(source, x, y, item.width, item.height, 0, 0, item.width, item.height);
    }
    if (source !== canvas) (source as ImageBitmap).close();
  }
}

interface Part {
  readonly numbers: Numbers;
  readonly channels: readonly number[];
  readonly area: readonly [number, number, number, number];
  readonly texture: WebGLTexture;
  /** Which of red, green and blue it writes; all by default. */
  readonly mask?: readonly [boolean, boolean, boolean];
}

/** A picture's passes: one for each LISTED maps, or one for each of red, green and blue. */
function partsOf({ item, x, y }: Placed<Picture>, sheetHeight: number, ranges: Ranges): Part[] {
  const { job, value, texture, width, height, mapWidth, mapHeight } = item;
  const [, , h, w] = value.layout.frame;
  const { row, shared } = ranges.place(value);
  const { range, as } = job;
  const perPixel = [w / mapWidth, h / mapHeight] as const;
  const taps = Math.min(MOST_TAPS, Math.max(1, Math.ceil(Math.max(...perPixel))));
  const bottom = sheetHeight - y - height; // GL counts rows from below
  const around = range.symmetric ? "symmetric" : "spread";
  const use = USES[as === "maps" && job.map === "signed" ? "signed" : around];
  const colours = as === "maps" ? mapLayer(job.map, job.theme) : -1;
  const [by = 1, bx = 1, , sy = 1, sx = 1] = value.words.slice(9);
  const part = (channels: readonly number[], first: number) => ({
    texture,
    channels,
    area: [x, bottom, width, height] as const,
    numbers: {
      words: value.words,
      integers: [
        [job.image, job.columns, channels.length, first],
        [mapWidth, mapHeight, job.gap, taps],
        [x, bottom, width, height],
        [MODES.indexOf(range.mode), use, colours],
        [row, RANGE_COLUMNS, ...shared],
      ],
      floats: [
        [...perPixel, range.low ?? 0, range.high ?? 1],
        [1 / sx, 1 / sy, 1 / bx, 1 / by],
      ],
    },
  });
  if (as === "rgb") {
    return job.channels.slice(0, 3).map((channel, k) => ({
      ...part([channel], 0),
      mask: [k === 0, k === 1, k === 2] as const,
    }));
  }
  return Array.from({ length: Math.ceil(job.channels.length / LISTED) }, (_, k) =>
    part(job.channels.slice(k * LISTED, (k + 1) * LISTED), k * LISTED),
  );
}
