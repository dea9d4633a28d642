// What Python tells of a data set's codes, as features/latent/latent.py packs it; and which of them are near a code.
import { countByFrequency } from "./vector_math.ts";

export interface LatentCodes {
  /** How many codes there are, of how many numbers each. */
  readonly count: number;
  readonly codeSize: number;
  /** The items that they are of, among the data set's `total`. */
  readonly itemIndices: readonly number[];
  readonly itemCount: number;
  readonly mean: Float32Array;
  readonly std: Float32Array;
  /** The principal directions, of length 1, or 0 where there are no more. */
  readonly directions: readonly [Float32Array, Float32Array];
  readonly deviations: readonly [number, number];
  /** Each direction's share of the variance. */
  readonly explainedVariance: readonly [number, number];
  /** All, one after the other. */
  readonly codes: Float32Array;
  /** Height, width and channels of the items' pictures; null where they are none. */
  readonly pictureShape: readonly [number, number, number] | null;
  readonly pictures: Uint8Array;
  /** Each one's label, -1 for none; empty where there are none. */
  readonly labels: readonly number[];
  readonly classes: readonly string[];
}

const isPair = (given: unknown): given is [number, number] =>
  Array.isArray(given) && given.length === 2 && given.every((one) => typeof one === "number");

/** Throws where it is damaged. */
export function unpackCodes(
  data: Uint8Array<ArrayBuffer>,
  labels: unknown = [],
  classes: unknown = [],
): LatentCodes {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const size = data.byteLength < 4 ? -1 : view.getUint32(0, true);
  if (size < 0 || 4 + size > data.byteLength) throw new Error("the codes are damaged");
  const told: Record<string, unknown> = JSON.parse(
    new TextDecoder().decode(data.subarray(4, 4 + size)),
  );
  const {
    items,
    total: itemCount,
    numbers: codeSize,
    deviations,
    explained: explainedVariance,
    picture,
  } = told;
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
    !isPair(deviations) ||
    !isPair(explainedVariance) ||
    rest !== count * height * width * channels
  ) {
    throw new Error("the codes are damaged");
  }
  // A copy: floats begin at multiples of four in memory alone.
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

/** The code of one of the items, by its place among them. */
export const codeAt = ({ codes, codeSize }: LatentCodes, at: number): Float32Array =>
  codes.subarray(at * codeSize, (at + 1) * codeSize);

/** What a label is called; "" for none. */
export function itemLabel({ labels, classes }: LatentCodes, at: number): string {
  const label = labels[at] ?? -1;
  return label < 0 ? "" : (classes[label] ?? String(label));
}

/** "Sandal, item 17". */
export function itemName(codes: LatentCodes, at: number): string {
  const label = itemLabel(codes, at);
  return `${label === "" ? "" : `${label}, `}item ${codes.itemIndices[at]}`;
}

/** One of the items as a picture; undefined where it has none. */
export function itemPicture(
  { pictureShape, pictures }: LatentCodes,
  at: number,
): ImageData | undefined {
  if (pictureShape === null) return undefined;
  const [height, width, channels] = pictureShape;
  const image = new ImageData(width, height);
  const first = at * height * width * channels;
  for (let k = 0; k < height * width; k++) {
    for (let c = 0; c < 3; c++) {
      image.data[4 * k + c] = pictures[first + k * channels + (channels === 3 ? c : 0)] ?? 0;
    }
    image.data[4 * k + 3] = 255;
  }
  return image;
}

const NEAREST_COUNT = 5;

/** The places of the items whose codes are nearest, the nearest first. */
export function nearestItems(
  codes: LatentCodes,
  code: ArrayLike<number>,
  most = NEAREST_COUNT,
): number[] {
  const found: [number, number][] = [];
  for (let at = 0; at < codes.count; at++) {
    const own = codeAt(codes, at);
    let sum = 0;
    for (let k = 0; k < codes.codeSize; k++) sum += ((own[k] ?? 0) - (code[k] ?? 0)) ** 2;
    const worst = found.at(-1)?.[1] ?? Number.POSITIVE_INFINITY;
    if (found.length === most && sum >= worst) continue;
    found.push([at, sum]);
    found.sort((a, b) => a[1] - b[1]);
    if (found.length > most) found.pop();
  }
  return found.map(([at]) => at);
}

/** "near Sandal and Bag": the two commonest labels of the nearest items, else the nearest item; "" without data. */
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
