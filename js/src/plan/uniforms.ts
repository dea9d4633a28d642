// The uniform block of ops/shaders/prelude.glsl, filled for the page's own passes.
import { LAYOUT_WORDS, UNIFORM_BYTES, type Value } from "./schema.ts";

const FIRST_INPUT_WORD = LAYOUT_WORDS; // after `o`
/** First words of `i` and `f`. */
export const FIRST_INT_WORD = LAYOUT_WORDS * 5; // after `o` and x[4]
export const FIRST_FLOAT_WORD = FIRST_INT_WORD + 8 * 4;

/** Numbers of named slots, each from a word of a block on. */
export type SlotWords = readonly {
  readonly word: number;
  readonly values: readonly number[];
  readonly isFloat: boolean;
}[];

export interface PassUniforms {
  /** The NCHW shapes that x0, x1 and so on are shown in, where `o` stands in passes of a Plan. */
  readonly nchw?: readonly (readonly number[])[];
  /** The layout of `o`. */
  readonly outputLayout?: readonly number[];
  /** The layout of x0, then that of x1, and so on. */
  readonly inputLayouts?: readonly number[];
  /** The shader's own numbers. */
  readonly slotWords?: SlotWords;
}

/** Writes one uniform block into `buffer` at a byte offset. */
export function writeUniforms(buffer: ArrayBuffer, offset: number, numbers: PassUniforms): void {
  const words = new Int32Array(buffer, offset, UNIFORM_BYTES / 4);
  const floats = new Float32Array(buffer, offset, UNIFORM_BYTES / 4);
  for (const [k, four] of (numbers.nchw ?? []).entries()) words.set(four, 4 * k);
  words.set(numbers.outputLayout ?? [], 0);
  words.set(numbers.inputLayouts ?? [], FIRST_INPUT_WORD);
  for (const { word, values, isFloat } of numbers.slotWords ?? [])
    (isFloat ? floats : words).set(values, word);
}

/** How one walk over a map is shared among fragments: strips of lines, so that few fragments serialise. */
export interface StripPlan {
  /** Strips a channel group; 1: one walk is short enough. */
  readonly stripCount: number;
  /** Texture rows a strip; elements of one that is reshaped. */
  readonly linesPerStrip: number;
}

/** Texels that one fragment may walk alone. */
const MAX_UNSPLIT_TEXELS = 256;

/** How a value lies, and is shown. */
export type ValueLayout = Pick<Value, "nchw" | "layout_words" | "layout">;

/**
 * Whether a value is shown in another nchw than it lies in, as a view of another value is, and what was computed as
 * rows, or lies in strips: its elements are then found one by one, by their number.
 */
export function isReshaped({ nchw, layout_words, layout }: ValueLayout): boolean {
  return layout.max_side > 0 || nchw.some((length, axis) => length !== layout_words[axis]);
}

/** Channel groups of four of what is shown. */
export function channelGroupCount({ nchw }: Pick<Value, "nchw">): number {
  return Math.ceil(nchw[1] / 4);
}

export function planStrips(value: ValueLayout): StripPlan {
  const [, , h, w] = value.nchw;
  return isReshaped(value)
    ? splitIntoStrips(h * w, 1)
    : splitIntoStrips(...texelLines(value.layout_words));
}

/** Rows of a map's texels in all layers and phases, and how long they are. */
function texelLines(words: readonly number[]): [number, number] {
  const [, , , , width = 1, height = 1] = words;
  const [, by = 1, bx = 1, , sy = 1, sx = 1] = words.slice(8);
  return [height * by * bx * sy * sx, width];
}

function splitIntoStrips(linesPerStrip: number, width: number): StripPlan {
  if (linesPerStrip * width <= MAX_UNSPLIT_TEXELS) return { stripCount: 1, linesPerStrip };
  // About as many strips as texels in one: both walks, along a strip and over the strips, are short.
  const each = Math.max(1, Math.round(Math.sqrt(linesPerStrip * width) / width));
  return { stripCount: Math.ceil(linesPerStrip / each), linesPerStrip: each };
}

/** Arrays one after the other. */
export function concatFloats(parts: readonly Float32Array[]): Float32Array<ArrayBuffer> {
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
