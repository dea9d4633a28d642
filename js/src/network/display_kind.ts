// How a value is displayed, and texts about its contents.
import { formatInteger } from "../number_format.ts";
import type { Value } from "../plan/schema.ts";

/** The C×H×W shape of one image of a value, at the value's own rank: "32×14×14", "10", "scalar". */
export const imageShape = ({ shape, nchw }: Value): string => exampleShape(shape, nchw[0]);

/** A shape without its batch axis, if it has one: a vector, a scalar and heads × tokens × tokens have none. */
export function exampleShape(shape: readonly number[], batch: number): string {
  const alone = shape.length === 1 && shape[0] === 1;
  const examples = shape.length > 0 && !alone && [1, batch].includes(shape[0] ?? 1);
  return (examples ? shape.slice(1) : shape).join("×") || "scalar";
}

/** How a value is displayed; `drawKind` returns it. */
export interface DrawKind {
  readonly name: "maps" | "attention" | "curves" | "classes" | "grey" | "rgb" | "bars" | "number";
  /** The `drawMode` of its draw jobs; undefined for numbers without a picture. */
  readonly drawMode: "maps" | "grey" | "rgb" | "curves" | "classes" | undefined;
  /** Shown in its own colours, without colour map and legend. */
  readonly isImage: boolean;
  /** One picture per channel, with a shared range or a range for each. */
  readonly isPerChannel: boolean;
}

const DISPLAY_KINDS = {
  maps: { name: "maps", drawMode: "maps", isImage: false, isPerChannel: true },
  attention: { name: "attention", drawMode: "maps", isImage: false, isPerChannel: true },
  curves: { name: "curves", drawMode: "curves", isImage: false, isPerChannel: true },
  classes: { name: "classes", drawMode: "classes", isImage: true, isPerChannel: false },
  grey: { name: "grey", drawMode: "grey", isImage: true, isPerChannel: false },
  rgb: { name: "rgb", drawMode: "rgb", isImage: true, isPerChannel: false },
  bars: { name: "bars", drawMode: undefined, isImage: false, isPerChannel: false },
  number: { name: "number", drawMode: undefined, isImage: false, isPerChannel: false },
} as const satisfies Readonly<Record<string, DrawKind>>;

/** The number of channels in a layer's grid. */
export function channelCount(value: Value): number {
  return drawKind(value).drawMode === "rgb" ? 3 : value.nchw[1];
}

/** The best way to display one image of a value. Colour is used only for images and classes, in inputs and outputs. */
export function drawKind(value: Value): DrawKind {
  const [, channels, height, width] = value.nchw;
  if (height * width === 1) return channels === 1 ? DISPLAY_KINDS.number : DISPLAY_KINDS.bars;
  if (value.display_kind === "signal") return DISPLAY_KINDS.curves;
  if (value.display_kind === "attention") return DISPLAY_KINDS.attention;
  if (value.display_kind === "classes" && value.kind === "output") return DISPLAY_KINDS.classes;
  const image = value.kind === "input" || value.kind === "output";
  if (image && value.shape.length === 4 && height > 1) {
    if (channels === 3) return DISPLAY_KINDS.rgb;
    if (channels === 1) return DISPLAY_KINDS.grey;
  }
  return DISPLAY_KINDS.maps;
}

/** A curve's picture is twice as wide as high, for any number of values. */
const CURVE_FRAME = { height: 21, width: 42 };

/** The noun for a value's channels. */
export function channelUnit(value: Value): "head" | "class" | "value" | "channel" {
  const { name } = drawKind(value);
  if (name === "attention") return "head";
  if (name === "classes" && value.nchw[1] > 1) return "class";
  return name === "bars" || name === "number" ? "value" : "channel";
}

/** "4 heads", "6 classes", "28 values", "1,024 channels". */
export function channelCountText(value: Value, count = value.nchw[1]): string {
  const unit = channelUnit(value);
  const ending = count === 1 ? "" : unit === "class" ? "es" : "s";
  return `${formatInteger(count)} ${unit}${ending}`;
}

/** Height and width of a channel's picture; layouts scale it by a whole number, or below 1. */
export function pictureFrame(value: Value): { readonly height: number; readonly width: number } {
  const [, , height, width] = value.nchw;
  return drawKind(value).drawMode === "curves" ? CURVE_FRAME : { height, width };
}

/** "32 channels of 14×14"; "16 values" for a vector. */
export function contentsText(value: Value): string {
  const [, channels, height, width] = value.nchw;
  if (value.shape.includes(0)) return "no values";
  if (height * width === 1) return channels === 1 ? "1 value" : `${channels} values`;
  const size = height === 1 ? String(width) : `${height}×${width}`;
  return `${channelCountText(value)} of ${size}`;
}
