// What the display's draws are made of: pictures on atlases, where each map lies, and the numbers of each draw.

import { clippedBeyond } from "../pictures/clipping.ts";
import { CLASSES_APART, CLASSES_LAYER, MARKS_LAYER, mapLayer } from "../pictures/colormaps.ts";
import { type Atlas, type Mosaic, mosaicOf, type Placed, pack } from "../pictures/mosaic.ts";
import type { Delivery, DrawJob } from "../plan/runtime.ts";
import type { Box } from "../plan/schedule.ts";
import { type Texture, UNIFORM_BYTES, type Value } from "../plan/schema.ts";
import { groupsOf, isReshaped, type SlotWords, writeNumbers } from "../plan/uniforms.ts";
import { CLASSES_SLOTS, CURVES_SLOTS, type DISPLAY, IMAGE_SLOTS, MAPS_SLOTS } from "./kernels.ts";
import { type Place, RANGE_COLUMNS, type Ranges } from "./ranges.ts";

/** Pixels along a side of the device's canvas; larger ones are slow everywhere. */
const MOST_SIDE = 4096;
/** Reads along each axis for maps drawn smaller than they are. */
const MOST_TAPS = 4;
/** Texels along a side of the smallest table; larger ones are its double, and so on. */
export const TABLE_SIDE = 64;
/** The display's `scaling`. */
const USES = { signed: 0, spread: 1, symmetric: 2, zero: 3 } as const;
const MODES = ["channel", "layer", "fixed"] as const;
/** Channels of what can be drawn as an image, at most: three colours and an alpha. */
const IMAGE_CHANNELS = 4;
/** No finite number is clipped. */
const NEVER = { low: -3.402823466e38, high: 3.402823466e38 };

/** A job with the value it shows. */
export interface Shown {
  readonly job: DrawJob;
  readonly value: Value;
  readonly texture: WebGLTexture;
  readonly size: Texture;
}

export type Picture = Mosaic & Shown;
export type ProgramName = keyof typeof DISPLAY;

/** One picture. */
export interface Draw {
  readonly texture: WebGLTexture;
  readonly area: Box;
  readonly program: ProgramName;
  /** Byte offset of its uniform block. */
  readonly at: number;
}

export interface Drawing {
  readonly atlases: readonly (Atlas<Picture> & { readonly draws: readonly Draw[] })[];
  readonly numbers: ArrayBuffer;
  readonly table: Table;
}

/** A texel a map: see colours.glsl. */
export interface Table {
  readonly width: number;
  readonly height: number;
  readonly layers: number;
  readonly data: Float32Array;
}

/** A picture's texels in the table; an image's colours have one each. */
interface Cells {
  readonly width: number;
  readonly height: number;
  readonly picture: Picture;
}

type Corner = readonly [number, number, number];

/** WebGL counts rows from below: pictures that are read back stand on their heads, so that their first row comes first. */
export function drawingOf(shown: readonly Shown[], ranges: Ranges, delivery: Delivery): Drawing {
  const upright = delivery === "canvas";
  const pictures = shown.map(pictureOf);
  const atlases = pack(pictures, MOST_SIDE);
  const { table, corners } = tableOf(pictures);
  const numbers = new ArrayBuffer(pictures.length * UNIFORM_BYTES);
  let at = 0;
  const drawn = (placed: Placed<Picture>, atlas: Atlas<Picture>): Draw => {
    const { item, x, y } = placed;
    const { value, texture, width, height } = item;
    const top = upright ? atlas.height - y : y;
    const area = [x, upright ? top - height : top, width, height] as const;
    const corner = corners.get(item) ?? [0, 0, 0];
    const own = ownOf(item, numbersOf(item, [x, top], corner, ranges.place(value), table));
    writeNumbers(numbers, at, { nchw: [value.nchw], words: value.words, own });
    at += UNIFORM_BYTES;
    return { texture, area, program: programOf(item), at: at - UNIFORM_BYTES };
  };
  return {
    atlases: atlases.map((atlas) => ({
      ...atlas,
      draws: atlas.placed.map((placed) => drawn(placed, atlas)),
    })),
    numbers,
    table,
  };
}

function pictureOf(one: Shown): Picture {
  const { job, value } = one;
  const [, , h, w] = value.nchw;
  const count = isOne(job) ? 1 : job.channels.length;
  const mosaic = mosaicOf(h, w, { ...job, count });
  if (Math.max(mosaic.width, mosaic.height) > MOST_SIDE) {
    throw new RangeError(
      `a picture of ${value.key} would be ${mosaic.width} × ${mosaic.height} pixels; ` +
        `at most ${MOST_SIDE} a side: choose a smaller scale or fewer channels`,
    );
  }
  return { ...mosaic, ...one };
}

/** Whether all channels make one picture. */
function isOne({ as }: DrawJob): boolean {
  return as === "rgb" || as === "classes";
}

/** A curve is drawn in the signed map's colours, whatever is chosen. */
function mapOf({ as, map }: DrawJob): DrawJob["map"] {
  if (as === "curves") return "signed";
  return as === "maps" ? map : "grey";
}

/** Texels of the table that a picture in colour has: red, green and blue, and where it is drawn with it its alpha. */
const coloursOf = ({ channels }: Pick<DrawJob, "channels">): number =>
  channels.length === IMAGE_CHANNELS ? IMAGE_CHANNELS : IMAGE_CHANNELS - 1;

type Numbers = Parameters<typeof MAPS_SLOTS.fill>[0];

/** With what only this picture's program has. */
function ownOf({ job, value, mapHeight }: Picture, numbers: Numbers): SlotWords {
  const [, , h, w] = value.nchw;
  switch (job.as) {
    case "maps":
      return MAPS_SLOTS.fill(numbers);
    case "classes": {
      const { length: channels } = job.channels;
      const [colours, colours_layer] = [CLASSES_APART, CLASSES_LAYER];
      return CLASSES_SLOTS.fill({ ...numbers, channels, colours, colours_layer });
    }
    case "curves":
      return CURVES_SLOTS.fill({
        ...numbers,
        values: Math.max(h, w),
        vertical: Number(h > 1),
        thickness: Math.round(Math.min(120, Math.max(60, mapHeight))),
      });
    default:
      return IMAGE_SLOTS.fill({ ...numbers, channels: job.as === "rgb" ? coloursOf(job) : 1 });
  }
}

/** What values of a form are drawn with, besides what draws maps. */
const OWN = { signal: "curves", classes: "classes", maps: "means", attention: "means" } as const;

/** The names of the programs that values of a Plan may be drawn with. */
export function programsFor(values: readonly Value[]): ProgramName[] {
  const names = new Set<ProgramName>(["plain", "means", "each"]);
  for (const value of values) {
    const before = isReshaped(value) ? ("reshaped " as const) : "";
    names.add(`${before}${OWN[value.form]}`);
    if (value.nchw[1] <= IMAGE_CHANNELS) names.add(`${before}image`);
    if (before) names.add("reshaped means").add("reshaped each");
  }
  return [...names];
}

function programOf(picture: Picture): ProgramName {
  const { as, range } = picture.job;
  const before = isReshaped(picture.value) ? ("reshaped " as const) : "";
  if (as === "curves" || as === "classes") return `${before}${as}`;
  if (as === "rgb" || as === "grey") return `${before}image`;
  if (range.mode === "channel") return `${before}each`;
  return before === "" && tapsOf(picture) === 1 ? "plain" : `${before}means`;
}

function tapsOf({ value, mapWidth, mapHeight }: Picture): number {
  const [, , h, w] = value.nchw;
  return Math.min(MOST_TAPS, Math.max(1, Math.ceil(Math.max(w / mapWidth, h / mapHeight))));
}

function useOf({ as, map, range }: DrawJob): number {
  if (as === "curves") return range.symmetric ? USES.symmetric : USES.zero;
  if (as === "maps" && map === "signed") return USES.signed;
  return range.symmetric ? USES.symmetric : USES.spread;
}

function numbersOf(
  picture: Picture,
  origin: readonly [number, number],
  [column, row, table_layer]: Corner,
  place: Place,
  table: Table,
): Numbers {
  const { value, job, mapWidth, mapHeight, size } = picture;
  const [, , h, w] = value.nchw;
  const [, by = 1, bx = 1, , sy = 1, sx = 1] = value.words.slice(8);
  const { gap, range } = job;
  const { low = 0, high = 1 } = range;
  const clips = range.mode === "fixed" ? clippedBeyond({ low, high }) : NEVER;
  return {
    origin,
    corner: [column, row],
    cell: [mapWidth + gap, mapHeight + gap],
    size: [mapWidth, mapHeight],
    colormap: mapLayer(mapOf(job), job.theme),
    marks: MARKS_LAYER,
    table_layer,
    taps: tapsOf(picture),
    range: MODES.indexOf(range.mode),
    scaling: useOf(job),
    first: place.first,
    columns: RANGE_COLUMNS,
    shared: place.shared,
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

/** Where all maps lie in their textures, and each picture's corner in this table. */
function tableOf(pictures: readonly Picture[]): { table: Table; corners: Map<Picture, Corner> } {
  const atlases = pack(pictures.map(cellsOf), MOST_SIDE);
  const side = (pick: (atlas: Atlas<Cells>) => number) => {
    const most = Math.max(TABLE_SIDE, ...atlases.map(pick));
    return 2 ** Math.ceil(Math.log2(most));
  };
  const [width, height] = [side((atlas) => atlas.width), side((atlas) => atlas.height)];
  const data = new Float32Array(width * height * atlases.length * 4);
  const corners = new Map<Picture, Corner>();
  for (const [layer, { placed }] of atlases.entries()) {
    for (const { item, x, y } of placed) {
      corners.set(item.picture, [x, y, layer]);
      for (let k = 0; k < item.width * item.height; k++) {
        const row = Math.floor(k / item.width);
        const at = (layer * height + y + row) * width + x + k - row * item.width;
        data.set(tileOf(item.picture, item.picture.job.channels[k]), at * 4);
      }
    }
  }
  return { table: { width, height, layers: atlases.length, data }, corners };
}

function cellsOf(picture: Picture): Cells {
  const { as, channels, columns } = picture.job;
  const beside = as === "classes" ? channels.length : columns;
  const width =
    as === "rgb" ? coloursOf(picture.job) : Math.max(1, Math.min(beside, channels.length));
  return { width, height: Math.max(1, Math.ceil(channels.length / width)), picture };
}

/** A channel's texel of the table. */
function tileOf({ job, value, size }: Picture, channel: number | undefined): number[] {
  if (channel === undefined) return [0, 0, 0, -1];
  if (isReshaped(value)) return [0, 0, job.image, channel];
  const [tileWidth = 1, tileHeight = 1, across = 1, , bn = 1, by = 1, bx = 1] =
    value.words.slice(4);
  const images = Math.floor(job.image / bn);
  const tile = images * groupsOf(value) + (channel >> 2);
  const row = Math.floor(tile / across);
  return [
    ((tile - row * across) * tileWidth + 0.5) / size.width,
    (row * tileHeight + 0.5) / size.height,
    (job.image - images * bn) * by * bx,
    channel,
  ];
}
