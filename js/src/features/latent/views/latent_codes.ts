// The codes of a data set as features/latent/latent.py packs them, and the search for codes near another.
import { countByFrequency } from "./vector_math.ts";

export interface LatentCodes {
  /** The number of codes, and the units in each. */
  readonly count: number;
  readonly codeSize: number;
  /** The data set's items that the codes belong to, and the total number of items. */
  readonly itemIndices: readonly number[];
  readonly itemCount: number;
  readonly mean: Float32Array;
  readonly std: Float32Array;
  /** The two principal directions, of length 1; zero vectors if there are fewer. */
  readonly directions: readonly [Float32Array, Float32Array];
  readonly deviations: readonly [number, number];
  /** The share of the variance along each direction. */
  readonly explainedVariance: readonly [number, number];
  /** All codes, concatenated. */
  readonly codes: Float32Array;
  /** Height, width and channels of the items' pictures; null if the items are not pictures. */
  readonly pictureShape: readonly [number, number, number] | null;
  readonly pictures: Uint8Array;
  /** Each item's label, -1 if it has none; empty if the data set has no labels. */
  readonly labels: readonly number[];
  readonly classes: readonly string[];
}

const isNumberPair = (value: unknown): value is [number, number] =>
  Array.isArray(value) && value.length === 2 && value.every((one) => typeof one === "number");

/** Unpack the codes; throws if the data are damaged. */
export function unpackCodes(
  data: Uint8Array<ArrayBuffer>,
  labels: unknown = [],
  classes: unknown = [],
): LatentCodes {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const size = data.byteLength < 4 ? -1 : view.getUint32(0, true);
  if (size < 0 || 4 + size > data.byteLength) throw new Error("the codes are damaged");
  const header: Record<string, unknown> = JSON.parse(
    new TextDecoder().decode(data.subarray(4, 4 + size)),
  );
  const {
    items,
    total: itemCount,
    numbers: codeSize,
    deviations,
    explained: explainedVariance,
    picture,
  } = header;
  if (!Array.isArray(items) || typeof itemCount !== "number" || typeof codeSize !== "number") {
    throw new Error("the codes are damaged");
  }
  const count = items.length;
  const floats = codeSize * (4 + count);
  const from = 4 + size;
  const sides = Array.isArray(picture) && picture.length === 3 ? picture.map(Number) : null;
  const [height = 0, width = 0, channels = 0] = sides ?? [];
  const rest = data.byteLength - from - 4 * floats;
  if (
    !isNumberPair(deviations) ||
    !isNumberPair(explainedVariance) ||
    rest !== count * height * width * channels
  ) {
    throw new Error("the codes are damaged");
  }
  // Copy: a Float32Array needs an offset that is a multiple of four.
  const all = new Float32Array(data.slice(from, from + 4 * floats).buffer);
  const row = (k: number): Float32Array => all.subarray(k * codeSize, (k + 1) * codeSize);
  return {
    count,
    codeSize,
    itemIndices: items.map(Number),
    itemCount,
    mean: row(0),
    std: row(1),
    directions: [row(2), row(3)],
    deviations,
    explainedVariance,
    codes: all.subarray(4 * codeSize),
    pictureShape: sides === null ? null : [height, width, channels],
    pictures: data.subarray(from + 4 * floats),
    labels: Array.isArray(labels) && labels.length === count ? labels.map(Number) : [],
    classes: Array.isArray(classes) ? classes.map(String) : [],
  };
}

/** An item's code, by the item's position in `codes`. */
export const codeAt = ({ codes, codeSize }: LatentCodes, position: number): Float32Array =>
  codes.subarray(position * codeSize, (position + 1) * codeSize);

/** The name of an item's label; "" if it has none. */
export function itemLabel({ labels, classes }: LatentCodes, position: number): string {
  const label = labels[position] ?? -1;
  return label < 0 ? "" : (classes[label] ?? String(label));
}

/** An item's name, such as "Sandal, item 17". */
export function itemName(codes: LatentCodes, position: number): string {
  const label = itemLabel(codes, position);
  return `${label === "" ? "" : `${label}, `}item ${codes.itemIndices[position]}`;
}

/** An item's picture; undefined if the items are not pictures. */
export function itemPicture(
  { pictureShape, pictures }: LatentCodes,
  position: number,
): ImageData | undefined {
  if (pictureShape === null) return undefined;
  const [height, width, channels] = pictureShape;
  const image = new ImageData(width, height);
  const first = position * height * width * channels;
  for (let k = 0; k < height * width; k++) {
    for (let c = 0; c < 3; c++) {
      image.data[4 * k + c] = pictures[first + k * channels + (channels === 3 ? c : 0)] ?? 0;
    }
    image.data[4 * k + 3] = 255;
  }
  return image;
}

const NEAREST_COUNT = 5;

/** The positions of the items with the nearest codes, nearest first. */
export function nearestItems(
  codes: LatentCodes,
  code: ArrayLike<number>,
  count = NEAREST_COUNT,
): number[] {
  const found: [number, number][] = [];
  for (let at = 0; at < codes.count; at++) {
    const own = codeAt(codes, at);
    let sum = 0;
    for (let k = 0; k < codes.codeSize; k++) sum += ((own[k] ?? 0) - (code[k] ?? 0)) ** 2;
    const worst = found.at(-1)?.[1] ?? Number.POSITIVE_INFINITY;
    if (found.length === count && sum >= worst) continue;
    found.push([at, sum]);
    found.sort((a, b) => a[1] - b[1]);
    if (found.length > count) found.pop();
  }
  return found.map(([at]) => at);
}

/**
 * The neighbourhood as text, such as "near Sandal and Bag": the two most frequent labels of the nearest items, else the
 * nearest item; "" without data.
 */
export function nearestText(codes: LatentCodes | null, code: ArrayLike<number>): string {
  if (codes === null || codes.count === 0) return "";
  const near = nearestItems(codes, code);
  const counts = countByFrequency(
    near.map((at) => itemLabel(codes, at)).filter((name) => name !== ""),
  );
  const names = counts.slice(0, 2).map(([name]) => name);
  if (names.length > 0) return `near ${names.join(" and ")}`;
  return near[0] === undefined ? "" : `near item ${codes.itemIndices[near[0]]}`;
}
