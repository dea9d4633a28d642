// How a value is displayed, and texts about its contents.
import { formatInteger } from "../number_format.ts";
import type { Value } from "../plan/schema.ts";

/** The C×H×W shape of one image of a value, at the value's own rank: "32×14×14", "10", "scalar". */
export const imageShapeText = ({ shape, nchw }: Value): string => exampleShapeText(shape, nchw[0]);

/** A shape without its batch axis, if it has one: a vector, a scalar and heads × tokens × tokens have none. */
export function exampleShapeText(shape: readonly number[], batchSize: number): string {
  const alone = shape.length === 1 && shape[0] === 1;
  const examples = shape.length > 0 && !alone && [1, batchSize].includes(shape[0] ?? 1);
  return (examples ? shape.slice(1) : shape).join("×") || "scalar";
}

/** How a value is displayed; `displayStyle` returns it. */
export interface DisplayStyle {
  readonly name: "maps" | "attention" | "curves" | "classes" | "grey" | "rgb" | "bars" | "number";
  /** The `drawMode` of its draw jobs; undefined for numbers without a picture. */
  readonly drawMode: "maps" | "grey" | "rgb" | "curves" | "classes" | undefined;
  /** Shown in its own colours, without colour map and legend. */
  readonly isImage: boolean;
  /** One picture per channel, with a shared range or a range for each. */
  readonly isPerChannel: boolean;
}

const DISPLAY_STYLES = {
  maps: { name: "maps", drawMode: "maps", isImage: false, isPerChannel: true },
  attention: { name: "attention", drawMode: "maps", isImage: false, isPerChannel: true },
  curves: { name: "curves", drawMode: "curves", isImage: false, isPerChannel: true },
  classes: { name: "classes", drawMode: "classes", isImage: true, isPerChannel: false },
  grey: { name: "grey", drawMode: "grey", isImage: true, isPerChannel: false },
  rgb: { name: "rgb", drawMode: "rgb", isImage: true, isPerChannel: false },
  bars: { name: "bars", drawMode: undefined, isImage: false, isPerChannel: false },
  number: { name: "number", drawMode: undefined, isImage: false, isPerChannel: false },
} as const satisfies Readonly<Record<string, DisplayStyle>>;

/** The number of channels in a layer's grid. */
export function channelCount(value: Value): number {
  return displayStyle(value).drawMode === "rgb" ? 3 : value.nchw[1];
}

/** The best way to display one image of a value. Colour is used only for images and classes, in inputs and outputs. */
export function displayStyle(value: Value): DisplayStyle {
  const [, channels, height, width] = value.nchw;
  if (height * width === 1) return channels === 1 ? DISPLAY_STYLES.number : DISPLAY_STYLES.bars;
  if (value.display_kind === "signal") return DISPLAY_STYLES.curves;
  if (value.display_kind === "attention") return DISPLAY_STYLES.attention;
  if (value.display_kind === "classes" && value.kind === "output") return DISPLAY_STYLES.classes;
  const image = value.kind === "input" || value.kind === "output";
  if (image && value.shape.length === 4 && height > 1) {
    if (channels === 3) return DISPLAY_STYLES.rgb;
    if (channels === 1) return DISPLAY_STYLES.grey;
  }
  return DISPLAY_STYLES.maps;
}

/** A curve's picture is twice as wide as high, for any number of values. */
const CURVE_PICTURE_SIZE = { height: 21, width: 42 };

/** The noun for a value's channels. */
export function channelNoun(value: Value): "head" | "class" | "value" | "channel" {
  const { name } = displayStyle(value);
  if (name === "attention") return "head";
  if (name === "classes" && value.nchw[1] > 1) return "class";
  return name === "bars" || name === "number" ? "value" : "channel";
}

/** "4 heads", "6 classes", "28 values", "1,024 channels". */
export function channelCountText(value: Value, count = value.nchw[1]): string {
  const unit = channelNoun(value);
  const ending = count === 1 ? "" : unit === "class" ? "es" : "s";
  return `${formatInteger(count)} ${unit}${ending}`;
}

/** Height and width of a channel's picture; layouts scale it by a whole number, or below 1. */
export function channelPictureSize(value: Value): {
  readonly height: number;
  readonly width: number;
} {
  const [, , height, width] = value.nchw;
  return displayStyle(value).drawMode === "curves" ? CURVE_PICTURE_SIZE : { height, width };
}

/** "32 channels of 14×14"; "16 values" for a vector. */
export function contentsText(value: Value): string {
  const [, channels, height, width] = value.nchw;
  if (value.shape.includes(0)) return "no values";
  if (height * width === 1) return channels === 1 ? "1 value" : `${channels} values`;
  const size = height === 1 ? String(width) : `${height}×${width}`;
  return `${channelCountText(value)} of ${size}`;
}
