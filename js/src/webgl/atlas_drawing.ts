// The draws of the display: pictures packed on atlases, the texture positions of their maps, and each draw's uniforms.

import { clippingLimits } from "../pictures/clipping.ts";
import {
  CLASS_COLOR_COUNT,
  CLASSES_TEXTURE_LAYER,
  colorMapTextureLayer,
  MARKS_TEXTURE_LAYER,
} from "../pictures/colormaps.ts";
import {
  type Atlas,
  type MosaicSize,
  mosaicSize,
  type PackedItem,
  packAtlases,
} from "../pictures/mosaic.ts";
import type { Box } from "../plan/run_slices.ts";
import type { CanvasTransfer, DrawJob } from "../plan/runtime.ts";
import { type Texture, UNIFORM_BYTES, type Value } from "../plan/schema.ts";
import { channelGroupCount, isReshaped, type SlotWords, writeUniforms } from "../plan/uniforms.ts";
import { type ColorRanges, RANGE_COLUMNS, type RangeTexel } from "./color_ranges.ts";
import {
  CLASSES_SLOTS,
  CURVES_SLOTS,
  type DISPLAY_PROGRAMS,
  IMAGE_SLOTS,
  MAPS_SLOTS,
} from "./kernels.ts";

/** The largest side of the device's canvas, in pixels; larger canvases are slow everywhere. */
const MAX_CANVAS_SIDE = 4096;
/** Reads along each axis for maps that are drawn smaller than their size. */
const MAX_TAPS = 4;
/** The side of the smallest map table, in texels; larger ones double it repeatedly. */
export const MIN_MAP_TABLE_SIDE = 64;
/** The values of the display's `scaling` uniform. */
const SCALINGS = { signed: 0, minMax: 1, symmetric: 2, withZero: 3 } as const;
const RANGE_MODES = ["channel", "layer", "fixed"] as const;
/** The most channels of a value that can be drawn as an image: three colours and alpha. */
const MAX_IMAGE_CHANNELS = 4;
/** Limits that clip no finite value. */
const NO_CLIPPING = { low: -3.402823466e38, high: 3.402823466e38 };

/** A draw job with its value and texture. */
export interface DrawItem {
  readonly job: DrawJob;
  readonly value: Value;
  readonly texture: WebGLTexture;
  readonly size: Texture;
}

export type AtlasPicture = MosaicSize & DrawItem;
export type ProgramName = keyof typeof DISPLAY_PROGRAMS;

/** The draw of one picture. */
export interface PictureDraw {
  readonly texture: WebGLTexture;
  readonly area: Box;
  readonly program: ProgramName;
  /** Byte offset of the picture's uniform block. */
  readonly uniformOffset: number;
}

export interface AtlasDrawing {
  readonly atlases: readonly (Atlas<AtlasPicture> & { readonly draws: readonly PictureDraw[] })[];
  readonly uniforms: ArrayBuffer;
  readonly mapTable: MapTable;
}

/** The map table with one texel per map: see colormap.glsl. */
export interface MapTable {
  readonly width: number;
  readonly height: number;
  readonly layers: number;
  readonly data: Float32Array;
}

/** A picture's texels in the table; an image has one per colour. */
interface TableCells {
  readonly width: number;
  readonly height: number;
  readonly picture: AtlasPicture;
}

type TableCorner = readonly [number, number, number];

/**
 * WebGL's rows start at the bottom: pictures that are read back are drawn upside down, so that their first row comes
 * first.
 */
export function composeDrawing(
  items: readonly DrawItem[],
  ranges: ColorRanges,
  canvasTransfer: CanvasTransfer,
): AtlasDrawing {
  const upright = canvasTransfer === "canvas";
  const pictures = items.map(createAtlasPicture);
  const atlases = packAtlases(pictures, MAX_CANVAS_SIDE);
  const { table: mapTable, corners } = buildMapTable(pictures);
  const uniforms = new ArrayBuffer(pictures.length * UNIFORM_BYTES);
  let at = 0;
  const drawn = (placed: PackedItem<AtlasPicture>, atlas: Atlas<AtlasPicture>): PictureDraw => {
    const { item, x, y } = placed;
    const { value, texture, width, height } = item;
    const top = upright ? atlas.height - y : y;
    const area = [x, upright ? top - height : top, width, height] as const;
    const corner = corners.get(item) ?? [0, 0, 0];
    const slotWords = programSlots(
      item,
      pictureUniforms(item, [x, top], corner, ranges.locate(value), mapTable),
    );
    writeUniforms(uniforms, at, {
      displayShapes: [value.nchw],
      inputLayouts: value.layout_words,
      slotWords,
    });
    at += UNIFORM_BYTES;
    return { texture, area, program: programFor(item), uniformOffset: at - UNIFORM_BYTES };
  };
  return {
    atlases: atlases.map((atlas) => ({
      ...atlas,
      draws: atlas.packedItems.map((placed) => drawn(placed, atlas)),
    })),
    uniforms,
    mapTable,
  };
}

function createAtlasPicture(item: DrawItem): AtlasPicture {
  const { job, value } = item;
  const [, , h, w] = value.nchw;
  const count = isSinglePicture(job) ? 1 : job.channels.length;
  const mosaic = mosaicSize(h, w, { ...job, count });
  if (Math.max(mosaic.width, mosaic.height) > MAX_CANVAS_SIDE) {
    throw new RangeError(
      `a picture of ${value.key} would be ${mosaic.width} × ${mosaic.height} pixels; ` +
        `at most ${MAX_CANVAS_SIDE} a side: choose a smaller scale or fewer channels`,
    );
  }
  return { ...mosaic, ...item };
}

/** Whether all channels make one picture. */
function isSinglePicture({ drawMode }: DrawJob): boolean {
  return drawMode === "rgb" || drawMode === "classes";
}

/** A curve has the signed colour map, whatever is selected. */
function colorMapFor({ drawMode, colormap }: DrawJob): DrawJob["colormap"] {
  if (drawMode === "curves") return "signed";
  return drawMode === "maps" ? colormap : "grey";
}

/** The table texels of a colour picture: red, green and blue, and alpha if the picture has it. */
const colorChannelCount = ({ channels }: Pick<DrawJob, "channels">): number =>
  channels.length === MAX_IMAGE_CHANNELS ? MAX_IMAGE_CHANNELS : MAX_IMAGE_CHANNELS - 1;

type PictureUniforms = Parameters<typeof MAPS_SLOTS.fill>[0];

/** The uniform words including the ones of the picture's own program. */
function programSlots(
  { job, value, mapHeight }: AtlasPicture,
  uniforms: PictureUniforms,
): SlotWords {
  const [, , h, w] = value.nchw;
  switch (job.drawMode) {
    case "maps":
      return MAPS_SLOTS.fill(uniforms);
    case "classes": {
      const { length: channels } = job.channels;
      const [colours, colours_layer] = [CLASS_COLOR_COUNT, CLASSES_TEXTURE_LAYER];
      return CLASSES_SLOTS.fill({ ...uniforms, channels, colours, colours_layer });
    }
    case "curves":
      return CURVES_SLOTS.fill({
        ...uniforms,
        values: Math.max(h, w),
        vertical: Number(h > 1),
        thickness: Math.round(Math.min(120, Math.max(60, mapHeight))),
      });
    default:
      return IMAGE_SLOTS.fill({
        ...uniforms,
        channels: job.drawMode === "rgb" ? colorChannelCount(job) : 1,
      });
  }
}

/** The additional program for each display kind, beside the programs for maps. */
const DISPLAY_KIND_PROGRAMS = {
  signal: "curves",
  classes: "classes",
  maps: "means",
  attention: "means",
} as const;

/** The names of the programs that can draw the values of a Plan. */
export function programNames(values: readonly Value[]): ProgramName[] {
  const names = new Set<ProgramName>(["plain", "means", "each"]);
  for (const value of values) {
    const before = isReshaped(value) ? ("reshaped " as const) : "";
    names.add(`${before}${DISPLAY_KIND_PROGRAMS[value.display_kind]}`);
    if (value.nchw[1] <= MAX_IMAGE_CHANNELS) names.add(`${before}image`);
    if (before) names.add("reshaped means").add("reshaped each");
  }
  return [...names];
}

function programFor(picture: AtlasPicture): ProgramName {
  const { drawMode, range } = picture.job;
  const before = isReshaped(picture.value) ? ("reshaped " as const) : "";
  if (drawMode === "curves" || drawMode === "classes") return `${before}${drawMode}`;
  if (drawMode === "rgb" || drawMode === "grey") return `${before}image`;
  if (range.mode === "channel") return `${before}each`;
  return before === "" && readsPerPixel(picture) === 1 ? "plain" : `${before}means`;
}

function readsPerPixel({ value, mapWidth, mapHeight }: AtlasPicture): number {
  const [, , h, w] = value.nchw;
  return Math.min(MAX_TAPS, Math.max(1, Math.ceil(Math.max(w / mapWidth, h / mapHeight))));
}

function scalingFor({ drawMode, colormap, range }: DrawJob): number {
  if (drawMode === "curves") return range.symmetric ? SCALINGS.symmetric : SCALINGS.withZero;
  if (drawMode === "maps" && colormap === "signed") return SCALINGS.signed;
  return range.symmetric ? SCALINGS.symmetric : SCALINGS.minMax;
}

function pictureUniforms(
  picture: AtlasPicture,
  origin: readonly [number, number],
  [column, row, table_layer]: TableCorner,
  rangeTexel: RangeTexel,
  table: MapTable,
): PictureUniforms {
  const { value, job, mapWidth, mapHeight, size } = picture;
  const [, , h, w] = value.nchw;
  const [, by = 1, bx = 1, , sy = 1, sx = 1] = value.layout_words.slice(8);
  const { gap, range } = job;
  const { low = 0, high = 1 } = range;
  const clips = range.mode === "fixed" ? clippingLimits({ low, high }) : NO_CLIPPING;
  return {
    origin,
    corner: [column, row],
    cell: [mapWidth + gap, mapHeight + gap],
    size: [mapWidth, mapHeight],
    colormap: colorMapTextureLayer(colorMapFor(job), job.theme),
    marks: MARKS_TEXTURE_LAYER,
    table_layer,
    taps: readsPerPixel(picture),
    range: RANGE_MODES.indexOf(range.mode),
    scaling: scalingFor(job),
    first: rangeTexel.firstTexel,
    columns: RANGE_COLUMNS,
    shared: rangeTexel.layerTexel,
    over_cell: [1 / (mapWidth + gap), 1 / (mapHeight + gap)],
    over_table: [1 / table.width, 1 / table.height],
    step: [w / mapWidth, h / mapHeight],
    fixed: [low, high],
    over_phases: [1 / sx, 1 / sy],
    over_blocks: [1 / bx, 1 / by],
    over_texture: [1 / size.width, 1 / size.height],
    clipped: [clips.low, clips.high],
  };
}

/** Build the table of all maps' positions in their textures, and each picture's corner in the table. */
function buildMapTable(pictures: readonly AtlasPicture[]): {
  table: MapTable;
  corners: Map<AtlasPicture, TableCorner>;
} {
  const atlases = packAtlases(pictures.map(tableCells), MAX_CANVAS_SIDE);
  const side = (pick: (atlas: Atlas<TableCells>) => number) => {
    const most = Math.max(MIN_MAP_TABLE_SIDE, ...atlases.map(pick));
    return 2 ** Math.ceil(Math.log2(most));
  };
  const [width, height] = [side((atlas) => atlas.width), side((atlas) => atlas.height)];
  const data = new Float32Array(width * height * atlases.length * 4);
  const corners = new Map<AtlasPicture, TableCorner>();
  for (const [layer, { packedItems }] of atlases.entries()) {
    for (const { item, x, y } of packedItems) {
      corners.set(item.picture, [x, y, layer]);
      for (let k = 0; k < item.width * item.height; k++) {
        const row = Math.floor(k / item.width);
        const at = (layer * height + y + row) * width + x + k - row * item.width;
        data.set(tableTexel(item.picture, item.picture.job.channels[k]), at * 4);
      }
    }
  }
  return { table: { width, height, layers: atlases.length, data }, corners };
}

function tableCells(picture: AtlasPicture): TableCells {
  const { drawMode, channels, columns } = picture.job;
  const beside = drawMode === "classes" ? channels.length : columns;
  const width =
    drawMode === "rgb"
      ? colorChannelCount(picture.job)
      : Math.max(1, Math.min(beside, channels.length));
  return { width, height: Math.max(1, Math.ceil(channels.length / width)), picture };
}

/** The table texel of a channel. */
function tableTexel({ job, value, size }: AtlasPicture, channel: number | undefined): number[] {
  if (channel === undefined) return [0, 0, 0, -1];
  if (isReshaped(value)) return [0, 0, job.image, channel];
  const [tileWidth = 1, tileHeight = 1, across = 1, , bn = 1, by = 1, bx = 1] =
    value.layout_words.slice(4);
  const images = Math.floor(job.image / bn);
  const tile = images * channelGroupCount(value) + (channel >> 2);
  const row = Math.floor(tile / across);
  return [
    ((tile - row * across) * tileWidth + 0.5) / size.width,
    (row * tileHeight + 0.5) / size.height,
    (job.image - images * bn) * by * bx,
    channel,
  ];
}
