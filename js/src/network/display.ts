// How a value is pictured, and the words for what it holds.
import { full } from "../format.ts";
import type { Value } from "../plan/schema.ts";

/** C×H×W of one image of a value, as its own rank says: "32×14×14", "10", "scalar". */
export const imageShape = ({ shape, nchw }: Value): string => shapeOfOne(shape, nchw[0]);

/** A shape without the batch's axis, which a vector or a number hasn't, nor heads × tokens × tokens. */
export function shapeOfOne(shape: readonly number[], batch: number): string {
  const alone = shape.length === 1 && shape[0] === 1;
  const examples = shape.length > 0 && !alone && [1, batch].includes(shape[0] ?? 1);
  return (examples ? shape.slice(1) : shape).join("×") || "scalar";
}

/** How a value is pictured; whoever shows one asks its `displayOf`. */
export interface Display {
  readonly name: "maps" | "attention" | "curves" | "classes" | "grey" | "rgb" | "bars" | "number";
  /** As a picture of maps is drawn; undefined for numbers without one. */
  readonly drawn: "maps" | "grey" | "rgb" | "curves" | "classes" | undefined;
  /** In colours of its own, with no colour map and no legend. */
  readonly image: boolean;
  /** A picture for each channel, in one range or in their own. */
  readonly each: boolean;
}

const DISPLAYS = {
  maps: { name: "maps", drawn: "maps", image: false, each: true },
  attention: { name: "attention", drawn: "maps", image: false, each: true },
  curves: { name: "curves", drawn: "curves", image: false, each: true },
  classes: { name: "classes", drawn: "classes", image: true, each: false },
  grey: { name: "grey", drawn: "grey", image: true, each: false },
  rgb: { name: "rgb", drawn: "rgb", image: true, each: false },
  bars: { name: "bars", drawn: undefined, image: false, each: false },
  number: { name: "number", drawn: undefined, image: false, each: false },
} as const satisfies Readonly<Record<string, Display>>;

/** How many channels a layer's grid has. */
export function channelsOf(value: Value): number {
  return displayOf(value).drawn === "rgb" ? 3 : value.nchw[1];
}

/** How one image of a value is best shown. Colour is for images and classes: inputs and outputs. */
export function displayOf(value: Value): Display {
  const [, channels, height, width] = value.nchw;
  if (height * width === 1) return channels === 1 ? DISPLAYS.number : DISPLAYS.bars;
  if (value.form === "signal") return DISPLAYS.curves;
  if (value.form === "attention") return DISPLAYS.attention;
  if (value.form === "classes" && value.kind === "output") return DISPLAYS.classes;
  const image = value.kind === "input" || value.kind === "output";
  if (image && value.shape.length === 4 && height > 1) {
    if (channels === 3) return DISPLAYS.rgb;
    if (channels === 1) return DISPLAYS.grey;
  }
  return DISPLAYS.maps;
}

/** A curve's picture is twice as wide as high, however many values it has. */
const CURVE = { height: 21, width: 42 };

/** What a value's channels are. */
export function unitOf(value: Value): "head" | "class" | "value" | "channel" {
  const { name } = displayOf(value);
  if (name === "attention") return "head";
  if (name === "classes" && value.nchw[1] > 1) return "class";
  return name === "bars" || name === "number" ? "value" : "channel";
}

/** "4 heads", "6 classes", "28 values", "1,024 channels". */
export function unitsOf(value: Value, count = value.nchw[1]): string {
  const unit = unitOf(value);
  const ending = count === 1 ? "" : unit === "class" ? "es" : "s";
  return `${full(count)} ${unit}${ending}`;
}

/** The sides of a channel's picture, of which layouts show a whole multiple. */
export function frameOf(value: Value): { readonly height: number; readonly width: number } {
  const [, , height, width] = value.nchw;
  return displayOf(value).drawn === "curves" ? CURVE : { height, width };
}

/** "32 channels of 14×14"; "16 values" for a vector. */
export function contents(value: Value): string {
  const [, channels, height, width] = value.nchw;
  if (value.shape.includes(0)) return "no values";
  if (height * width === 1) return channels === 1 ? "1 value" : `${channels} values`;
  const size = height === 1 ? String(width) : `${height}×${width}`;
  return `${unitsOf(value)} of ${size}`;
}
