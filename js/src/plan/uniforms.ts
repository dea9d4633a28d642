// The uniform block of ops/shaders/prelude.glsl, filled for the page's own passes.
import { LAYOUT_WORDS, UNIFORM_BYTES, type Value } from "./schema.ts";

const FIRST_INPUT = LAYOUT_WORDS; // after `o`
/** First words of `i` and `f`. */
export const INTEGERS = LAYOUT_WORDS * 5; // after `o` and x[4]
export const FLOATS = INTEGERS + 8 * 4;

/** Numbers of named slots, each from a word of a block on. */
export type SlotWords = readonly {
  readonly word: number;
  readonly values: readonly number[];
  readonly isFloat: boolean;
}[];

export interface Numbers {
  /** The NCHW shapes that x0, x1 and so on are shown in, where `o` stands in passes of a Plan. */
  readonly nchw?: readonly (readonly number[])[];
  /** The layout of `o`. */
  readonly output?: readonly number[];
  /** The layout of x0, then that of x1, and so on. */
  readonly words?: readonly number[];
  /** The shader's own numbers. */
  readonly own?: SlotWords;
}

/** Writes one uniform block into `buffer` at a byte offset. */
export function writeNumbers(buffer: ArrayBuffer, offset: number, numbers: Numbers): void {
  const words = new Int32Array(buffer, offset, UNIFORM_BYTES / 4);
  const floats = new Float32Array(buffer, offset, UNIFORM_BYTES / 4);
  for (const [k, four] of (numbers.nchw ?? []).entries()) words.set(four, 4 * k);
  words.set(numbers.output ?? [], 0);
  words.set(numbers.words ?? [], FIRST_INPUT);
  for (const { word, values, isFloat } of numbers.own ?? [])
    (isFloat ? floats : words).set(values, word);
}

/** How one walk over a map is shared among fragments: strips of lines, so that few fragments serialise. */
export interface Strips {
  /** Strips a channel group; 1: one walk is short enough. */
  readonly strips: number;
  /** Texture rows a strip; elements of one that is reshaped. */
  readonly lines: number;
}

/** Texels that one fragment may walk alone. */
const SHORT_WALK = 256;

/** How a value lies, and is shown. */
export type Lying = Pick<Value, "nchw" | "words" | "layout">;

/**
 * Whether a value is shown in another nchw than it lies in, as a view of another value is, and what was computed as
 * rows, or lies in strips: its elements are then found one by one, by their number.
 */
export function isReshaped({ nchw, words, layout }: Lying): boolean {
  return layout.side > 0 || nchw.some((length, axis) => length !== words[axis]);
}

/** Channel groups of four of what is shown. */
export function groupsOf({ nchw }: Pick<Value, "nchw">): number {
  return Math.ceil(nchw[1] / 4);
}

export function stripsOf(value: Lying): Strips {
  const [, , h, w] = value.nchw;
  return isReshaped(value) ? shared(h * w, 1) : shared(...linesOf(value.words));
}

/** Rows of a map's texels in all layers and phases, and how long they are. */
function linesOf(words: readonly number[]): [number, number] {
  const [, , , , width = 1, height = 1] = words;
  const [, by = 1, bx = 1, , sy = 1, sx = 1] = words.slice(8);
  return [height * by * bx * sy * sx, width];
}

function shared(lines: number, width: number): Strips {
  if (lines * width <= SHORT_WALK) return { strips: 1, lines };
  // About as many strips as texels in one: both walks, along a strip and over the strips, are short.
  const each = Math.max(1, Math.round(Math.sqrt(lines * width) / width));
  return { strips: Math.ceil(lines / each), lines: each };
}

/** Arrays one after the other. */
export function joined(parts: readonly Float32Array[]): Float32Array<ArrayBuffer> {
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
