// Fills the uniform block of ops/shaders/prelude.glsl for the page's own passes.
import { LAYOUT_WORDS, UNIFORM_BYTES, type Value } from "./schema.ts";

const FIRST_INPUT_WORD = LAYOUT_WORDS; // after `o`
/** First words of the arrays `i` and `f`. */
export const FIRST_INT_WORD = LAYOUT_WORDS * 5; // after `o` and x[4]
export const FIRST_FLOAT_WORD = FIRST_INT_WORD + 8 * 4;

/** Values of named slots, each with its first word in the block. */
export type SlotWords = readonly {
  readonly word: number;
  readonly values: readonly number[];
  readonly isFloat: boolean;
}[];

export interface PassUniforms {
  /** The NCHW shapes in which x0, x1 and so on are displayed, in the words that hold `o` in a Plan's passes. */
  readonly displayShapes?: readonly (readonly number[])[];
  /** The layout of the output `o`. */
  readonly outputLayout?: readonly number[];
  /** The layouts of x0, x1 and so on, concatenated. */
  readonly inputLayouts?: readonly number[];
  /** The shader's own values. */
  readonly slotWords?: SlotWords;
}

/** Write one uniform block to `buffer` at a byte offset. */
export function writeUniforms(buffer: ArrayBuffer, offset: number, uniforms: PassUniforms): void {
  const words = new Int32Array(buffer, offset, UNIFORM_BYTES / 4);
  const floats = new Float32Array(buffer, offset, UNIFORM_BYTES / 4);
  for (const [k, four] of (uniforms.displayShapes ?? []).entries()) words.set(four, 4 * k);
  words.set(uniforms.outputLayout ?? [], 0);
  words.set(uniforms.inputLayouts ?? [], FIRST_INPUT_WORD);
  for (const { word, values, isFloat } of uniforms.slotWords ?? [])
    (isFloat ? floats : words).set(values, word);
}

/** Splits a walk over a map among fragments: into strips of lines, because a few fragments alone would run serially. */
export interface StripSplit {
  /** Strips per channel group; 1 if one walk is short enough. */
  readonly stripCount: number;
  /** Texture rows per strip; for a reshaped value, elements per strip. */
  readonly linesPerStrip: number;
}

/** The most texels that one fragment may walk alone. */
const MAX_UNSPLIT_TEXELS = 256;

/** How a value is stored and displayed. */
export type ValueLayout = Pick<Value, "nchw" | "layout_words" | "layout">;

/**
 * Whether a value's displayed `nchw` differs from its stored one (a view of another value, or a value computed as
 * rows), or it is stored in strips. Its elements are then located one by one, by index.
 */
export function isReshaped({ nchw, layout_words, layout }: ValueLayout): boolean {
  return layout.max_side > 0 || nchw.some((length, axis) => length !== layout_words[axis]);
}

/** Number of channel groups (of four) in the displayed shape. */
export function channelGroupCount({ nchw }: Pick<Value, "nchw">): number {
  return Math.ceil(nchw[1] / 4);
}

export function splitValueIntoStrips(value: ValueLayout): StripSplit {
  const [, , h, w] = value.nchw;
  return isReshaped(value)
    ? splitIntoStrips(h * w, 1)
    : splitIntoStrips(...texelRowsAndWidth(value.layout_words));
}

/** The number of texel rows of a map, over all layers and phases, and their length. */
function texelRowsAndWidth(words: readonly number[]): [number, number] {
  const [, , , , width = 1, height = 1] = words;
  const [, by = 1, bx = 1, , sy = 1, sx = 1] = words.slice(8);
  return [height * by * bx * sy * sx, width];
}

function splitIntoStrips(lineCount: number, width: number): StripSplit {
  if (lineCount * width <= MAX_UNSPLIT_TEXELS) return { stripCount: 1, linesPerStrip: lineCount };
  // About as many strips as texels per strip: both the walk along a strip and the walk over the strips are short.
  const each = Math.max(1, Math.round(Math.sqrt(lineCount * width) / width));
  return { stripCount: Math.ceil(lineCount / each), linesPerStrip: each };
}

/** Concatenate arrays. */
export function concatFloats(arrays: readonly Float32Array[]): Float32Array<ArrayBuffer> {
  const all = new Float32Array(arrays.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of arrays) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
