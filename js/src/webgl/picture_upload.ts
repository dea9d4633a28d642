// Feeds pictures to inputs on the GPU: uploads them, resamples rows and columns, and writes the input's values.

import {
  channelsAndSize,
  fitPicture,
  type ResampleTaps,
  resampleTaps,
} from "../pictures/resize.ts";
import { isUnpremultiplied } from "../pictures/unpremultiplied.ts";
import { noPictureInputError } from "../plan/error_text.ts";
import type { ProgramSource } from "../plan/program_source.ts";
import { type ImageSource, PlanError } from "../plan/runtime.ts";
import type { Input } from "../plan/schema.ts";
import { uniformSlots } from "../plan/uniform_slots.ts";
import type { SlotWords } from "../plan/uniforms.ts";
import type { GlDevice } from "./gl_device.ts";
import { setNearestFilter } from "./gl_resources.ts";
import type { LinkedProgram } from "./program_cache.ts";
import pictureInput from "./shaders/picture_input.glsl";
import resample from "./shaders/resample.glsl";
import { createSurface, freeSurface, type Surface } from "./utility_passes.ts";

/** The picture that an input is fed with from now on. */
export interface InputPicture {
  readonly picture: ImageSource;
  readonly mirrored: boolean;
}

/** The target that the input's values are drawn into. */
export type StagingTarget = Pick<Surface, "framebuffer" | "width" | "height">;

/** A longer side would need more taps than llvmpipe's loops allow: they end silently after 65,535 iterations. */
const MAX_PICTURE_SIDE = 2 ** 14;
/** The picture's texture unit; unit 0 is used for tables and intermediate results. */
const PICTURE_TEXTURE_UNIT = 1;

/** The uniforms are one array of three ivec4. */
const SLOT_BANKS = { integers: { name: "n", firstWord: 0, vectorCount: 3 } };
const RESAMPLE_SLOTS = uniformSlots(
  {
    /** The first source row or column that is used. */
    first: "int",
    /** Minus the width of a mirrored picture, else 0. */
    mirrored: "int",
  },
  SLOT_BANKS,
);
const INPUT_SLOTS = uniformSlots(
  {
    /** Channels, height and width of the input, and texels per row of the result. */
    size: "ivec3",
    width: "int",
    /** Left, top, width and height of the picture in the input. */
    part: "ivec4",
    /** 1 if the channels are the last axis. */
    channels_last: "int",
    /** The input's value for white. */
    white: "int",
  },
  SLOT_BANKS,
);
const RESAMPLE_GLSL = `${RESAMPLE_SLOTS.macros}\n${resample}`;
const SAMPLERS = ["table", "source"];
export const RESAMPLE_PROGRAMS: readonly ProgramSource[] = [
  { name: "rows of a picture", source: `#define ROWS\n${RESAMPLE_GLSL}`, samplers: SAMPLERS },
  { name: "columns of a picture", source: RESAMPLE_GLSL, samplers: SAMPLERS },
  {
    name: "input of a picture",
    source: `${INPUT_SLOTS.macros}\n${pictureInput}`,
    samplers: ["source"],
  },
];

/** A picture that texImage2D uploads as the browser displays it. */
type UploadableImage = Exclude<ImageSource, HTMLImageElement | VideoFrame>;

/** The uploaded picture; its texture is reused while the size is the same. */
interface PictureTexture {
  readonly texture: WebGLTexture;
  readonly width: number;
  readonly height: number;
}

/** The resources of one fed input, valid for pictures of one size. */
interface InputResources {
  readonly sizeKey: string;
  readonly uploadedPicture: PictureTexture;
  readonly tapTables: readonly [WebGLTexture, WebGLTexture];
  readonly resampledRows: Surface;
  readonly resampledPicture: Surface;
  /** The first picture row that is used. */
  readonly firstRow: number;
  /** Left, top, width and height of the picture in the input. */
  readonly region: readonly [number, number, number, number];
  readonly bytes: number;
}

/** Width and height as displayed; zeros if the picture has no frame yet or was closed. */
export function pictureSize(picture: ImageSource): [number, number] {
  if ("videoWidth" in picture) {
    const here = picture.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA;
    return here ? [picture.videoWidth, picture.videoHeight] : [0, 0];
  }
  if ("naturalWidth" in picture) return [picture.naturalWidth, picture.naturalHeight];
  if ("displayWidth" in picture) return [picture.displayWidth, picture.displayHeight];
  return [picture.width, picture.height];
}

export class PictureUploader {
  private readonly device: GlDevice;
  private generation = -1;
  private linkedPrograms: readonly LinkedProgram[] = [];
  private uniformLocations: readonly (WebGLUniformLocation | null)[] = [];
  /** By input key. */
  private readonly inputResources = new Map<string, InputResources>();
  /** Canvases, by input key, for pictures that cannot be uploaded as displayed. */
  private readonly canvases = new Map<string, OffscreenCanvas | HTMLCanvasElement>();
  private readonly uniformWords = new Int32Array(12);
  private isClosed = false;

  constructor(device: GlDevice) {
    this.device = device;
  }

  /** Whether its programs belong to the current context. */
  get isReady(): boolean {
    return this.generation === this.device.generation;
  }

  get bytes(): number {
    return this.isReady
      ? [...this.inputResources.values()].reduce((sum, { bytes }) => sum + bytes, 0)
      : 0;
  }

  /** Compile the programs if this context lacks them. */
  async prepare(): Promise<void> {
    const { device } = this;
    const { generation } = device;
    if (this.isReady) return;
    const linked = await device.programs.acquire(RESAMPLE_PROGRAMS);
    if (device.generation !== generation) return; // lost with their context
    if (this.isClosed || this.isReady) {
      device.programs.release(linked);
      return;
    }
    this.inputResources.clear();
    this.linkedPrograms = linked;
    this.uniformLocations = linked.map(({ program }) => device.gl.getUniformLocation(program, "n"));
    this.generation = generation;
  }

  /**
   * Draw the picture's values into an input's staging texture; returns false if the picture has no frame, or no longer
   * has one. Throws PlanError if the picture may not be read, or memory runs out.
   */
  drawPicture(input: Input, { picture, mirrored }: InputPicture, staging: StagingTarget): boolean {
    const size = pictureSize(picture);
    if (Math.min(...size) === 0) return false;
    const { key } = input;
    try {
      const upload = this.toUploadable(key, picture, size);
      const [width, height] = pictureSize(upload);
      const place = this.resourcesFor(input, width, height);
      this.upload(place.uploadedPicture, upload);
      this.draw(input, place, mirrored, staging);
    } catch (error) {
      this.canvases.delete(key); // a picture of another origin has tainted the canvas for good
      if (error instanceof Error && error.name === "SecurityError") {
        throw new PlanError(
          `input ${JSON.stringify(key)} cannot take a picture of another origin: its server has to allow that (CORS), ` +
            'and the picture needs crossorigin="anonymous"',
        );
      }
      throw error;
    }
    return true;
  }

  /** Free the resources of a fed input. */
  freeInput(key: string): void {
    this.canvases.delete(key);
    this.freeResources(key);
  }

  dispose(): void {
    this.isClosed = true;
    for (const key of [...this.inputResources.keys()]) this.freeInput(key);
    if (this.isReady) this.device.programs.release(this.linkedPrograms);
    this.generation = -1;
  }

  /**
   * Draw the picture on a canvas if texImage2D would not upload it as displayed (EXIF orientation, display aspect
   * ratio, colours not premultiplied by alpha), or if it is too large for the device.
   */
  private toUploadable(
    key: string,
    picture: ImageSource,
    [width, height]: readonly number[],
  ): UploadableImage {
    const most = Math.min(MAX_PICTURE_SIDE, this.device.capabilities.target.max_texture_size);
    const [across = 1, down = 1] = [width, height];
    const times = Math.min(1, most / Math.max(across, down));
    const { isSoftware } = this.device.capabilities;
    const isFilm = "videoWidth" in picture || "getContext" in picture;
    // With software renderers, a direct upload of a video frame takes five times as long as by a canvas.
    const isAsShown = "data" in picture || isUnpremultiplied(picture) || (isFilm && !isSoftware);
    if (isAsShown && times === 1) return picture as UploadableImage;
    const [w, h] = [across, down].map((side) => Math.max(1, Math.round(side * times)));
    const from = "data" in picture ? toCanvas(picture) : picture;
    const canvas = this.canvases.get(key) ?? createCanvas(1, 1);
    this.canvases.set(key, canvas);
    if (canvas.width !== w) canvas.width = w ?? 1;
    if (canvas.height !== h) canvas.height = h ?? 1;
    const context = context2d(canvas, isSoftware);
    context.globalCompositeOperation = "copy";
    context.imageSmoothingQuality = "high";
    context.drawImage(from, 0, 0, canvas.width, canvas.height);
    return canvas;
  }

  private resourcesFor(input: Input, width: number, height: number): InputResources {
    const size = `${width} ${height}`;
    const before = this.inputResources.get(input.key);
    if (before?.sizeKey === size) return before;
    this.freeResources(input.key);
    const place = this.createResources(input, width, height, size);
    this.inputResources.set(input.key, place);
    try {
      this.device.resources.checkMemory();
    } catch (error) {
      this.freeResources(input.key);
      throw error;
    }
    return place;
  }

  private freeResources(key: string): void {
    const place = this.inputResources.get(key);
    this.inputResources.delete(key);
    if (place === undefined || !this.isReady) return;
    const { resources } = this.device;
    for (const texture of [place.uploadedPicture.texture, ...place.tapTables])
      resources.freeTexture(texture);
    for (const surface of [place.resampledRows, place.resampledPicture])
      freeSurface(this.device, surface);
  }

  private createResources(
    input: Input,
    width: number,
    height: number,
    sizeKey: string,
  ): InputResources {
    const { sourceBox, left, top, ...part } = fitPicture(input, [width, height]);
    const longest = this.device.capabilities.target.max_texture_size;
    if (Math.max(part.width, part.height) > longest) {
      throw new PlanError(
        `input ${JSON.stringify(input.key)} of ${input.shape.join("×")} is too large for pictures: this device has ` +
          `textures of ${longest} a side`,
      );
    }
    const across = resampleTaps(width, sourceBox[0], sourceBox[2], part.width);
    const down = resampleTaps(height, sourceBox[1], sourceBox[3], part.height);
    const firstRow = Math.min(...down.firstPixels);
    const last = Math.max(...down.firstPixels.map((one, k) => one + (down.pixelCounts[k] ?? 0)));
    const tables = [this.createTapTable(across), this.createTapTable(down)] as const;
    const resampledRows = this.createSurface(part.width, last - firstRow);
    const resampledPicture = this.createSurface(part.width, part.height);
    return {
      sizeKey,
      uploadedPicture: this.createTexture(width, height),
      tapTables: [tables[0].texture, tables[1].texture],
      resampledRows,
      resampledPicture,
      firstRow,
      region: [left, top, part.width, part.height],
      bytes:
        width * height * 4 +
        resampledRows.bytes +
        resampledPicture.bytes +
        tables[0].bytes +
        tables[1].bytes,
    };
  }

  /** The tap table that resample.glsl reads. */
  private createTapTable({ firstPixels, pixelCounts, weights }: ResampleTaps) {
    const { resources } = this.device;
    const width = 1 + Math.ceil(Math.max(...pixelCounts) / 4);
    const size = { width, height: firstPixels.length, layers: 1 };
    const data = new Float32Array(width * size.height * 4);
    for (const [k, own] of weights.entries()) {
      data.set([firstPixels[k] ?? 0, own.length], k * width * 4);
      data.set(own, (k * width + 1) * 4);
    }
    const texture = resources.createTexture(size, "rgba32f");
    for (const _ of resources.upload(texture, size, data));
    return { texture, bytes: data.byteLength };
  }

  private createSurface(width: number, height: number): Surface {
    const { resources } = this.device;
    const texture = resources.createTexture({ width, height, layers: 1 }, "rgba8");
    const framebuffer = resources.createFramebuffer(texture, 1, "rgba8");
    return { texture, framebuffer, width, height, layers: 1, bytes: width * height * 4 };
  }

  /** A 2-D texture: only those receive pictures from canvas and video without a copy on this thread. */
  private createTexture(width: number, height: number): PictureTexture {
    const { liveObjects, gl } = this.device;
    const texture = gl.createTexture();
    liveObjects.textures += 1;
    this.bindTexture(texture);
    setNearestFilter(gl, gl.TEXTURE_2D);
    gl.texImage2D(
      gl.TEXTURE_2D, 0, gl.RGBA8, width, height, 0, gl.RGBA, gl.UNSIGNED_BYTE, null,
    ); // biome-ignore format: one call's arguments
    return { texture, width, height };
  }

  private bindTexture(texture: WebGLTexture): void {
    const { gl, state } = this.device;
    if (state.activeUnit !== PICTURE_TEXTURE_UNIT)
      gl.activeTexture(gl.TEXTURE0 + PICTURE_TEXTURE_UNIT);
    state.activeUnit = PICTURE_TEXTURE_UNIT;
    gl.bindTexture(gl.TEXTURE_2D, texture);
  }

  /** The context's pixel store keeps its defaults: rows from the top, colours as the browser displays them. */
  private upload({ texture }: PictureTexture, picture: UploadableImage): void {
    const { gl } = this.device;
    this.bindTexture(texture);
    if ("videoWidth" in picture) {
      // texImage2D reuses a texture of the same size, and it is the only call by which browsers copy video frames on
      // the GPU.
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, picture);
    } else gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, gl.RGBA, gl.UNSIGNED_BYTE, picture);
  }

  private draw(
    input: Input,
    resources: InputResources,
    mirrored: boolean,
    staging: StagingTarget,
  ): void {
    const { uploadedPicture, tapTables, resampledRows, resampledPicture, region } = resources;
    const sides = channelsAndSize(input);
    const { firstRow } = resources;
    const across = RESAMPLE_SLOTS.fill({
      first: firstRow,
      mirrored: mirrored ? -uploadedPicture.width : 0,
    });
    const down = RESAMPLE_SLOTS.fill({ first: firstRow, mirrored: 0 });
    const stored = INPUT_SLOTS.fill({
      size: sides,
      width: staging.width,
      part: region,
      channels_last: Number(input.layout === "NHWC"),
      white: input.dtype === "uint8" ? 255 : 1,
    });
    this.drawPass(0, [tapTables[0]], resampledRows, across);
    this.drawPass(1, [tapTables[1], resampledRows.texture], resampledPicture, down);
    this.drawPass(2, [resampledPicture.texture], staging, stored);
  }

  private drawPass(
    programIndex: number,
    inputs: readonly WebGLTexture[],
    { framebuffer, width, height }: StagingTarget,
    slotWords: SlotWords,
  ): void {
    const { gl, state } = this.device;
    const linked = this.linkedPrograms[programIndex];
    if (linked === undefined) throw new Error("a picture is taken before its programs are here");
    state.setScissor(undefined);
    state.useProgram(linked.program);
    state.bindTextures(inputs);
    state.bindFramebuffer(framebuffer);
    state.setViewport(0, 0, width, height);
    for (const { word, values } of slotWords) this.uniformWords.set(values, word);
    gl.uniform4iv(this.uniformLocations[programIndex] ?? null, this.uniformWords);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    linked.hasDrawn = true;
  }
}

/** Resample a picture to an input's values, repeated for each example of its batch; blocks until they are read back. */
export async function resamplePicture(
  device: GlDevice,
  input: Input,
  picture: ImageSource,
): Promise<Float32Array<ArrayBuffer>> {
  const count = input.shape.reduce((product, side) => product * side, 1);
  if (input.fit === "") throw noPictureInputError(input.key);
  const feeding = new PictureUploader(device);
  try {
    await feeding.prepare();
    const { generation, gl, state } = device;
    device.check(generation);
    const longest = Math.min(count, device.capabilities.target.max_texture_size);
    const width = Math.ceil(longest / 4);
    const surface = createSurface(device, width, Math.ceil(count / 4 / width), 1);
    try {
      if (!feeding.drawPicture(input, { picture, mirrored: false }, surface))
        throw emptyPictureError(input.key);
      const data = new Float32Array(width * surface.height * 4);
      state.bindFramebuffer(surface.framebuffer);
      gl.readPixels(0, 0, width, surface.height, gl.RGBA, gl.FLOAT, data);
      device.check(generation); // a lost context leaves `data` unchanged, without an error
      return data.slice(0, count);
    } finally {
      if (device.generation === generation) freeSurface(device, surface);
    }
  } finally {
    feeding.dispose();
  }
}

/** The error for a picture without a frame whose values were requested. */
export function emptyPictureError(key: string): PlanError {
  return new PlanError(
    `the picture for input ${JSON.stringify(key)} has no size: wait until the image is loaded or the video has a frame, ` +
      "and close no bitmap before",
  );
}

function createCanvas(width: number, height: number): OffscreenCanvas | HTMLCanvasElement {
  if (typeof OffscreenCanvas !== "undefined") return new OffscreenCanvas(width, height);
  return Object.assign(document.createElement("canvas"), { width, height });
}

function context2d(
  canvas: OffscreenCanvas | HTMLCanvasElement,
  willReadFrequently: boolean,
): OffscreenCanvasRenderingContext2D | CanvasRenderingContext2D {
  const context = canvas.getContext("2d", { willReadFrequently });
  if (context === null) throw new PlanError("this browser has no room for a canvas");
  return context as OffscreenCanvasRenderingContext2D | CanvasRenderingContext2D;
}

/** ImageData on a canvas of the same size. */
function toCanvas(data: ImageData): OffscreenCanvas | HTMLCanvasElement {
  const canvas = createCanvas(data.width, data.height);
  context2d(canvas, true).putImageData(data, 0, 0);
  return canvas;
}
