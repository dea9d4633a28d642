// Named uniform slots of the page's own shaders and of edits, as codegen/slots.py has them of a Plan's: a table of names and
// GLSL types gives the macros by which the shader finds its numbers, u_name, and the words that they are written to.
import { FLOATS, INTEGERS, type SlotWords } from "./uniforms.ts";

/** Numbers of a GLSL type. */
const SIZES = { int: 1, ivec2: 2, ivec3: 3, ivec4: 4, float: 1, vec2: 2, vec3: 3, vec4: 4 };
type Type = keyof typeof SIZES;
/** Names in their order, with a type or that of an array's elements. */
type Table = Readonly<Record<string, Type | `${Type}[${number}]`>>;

type Two = readonly [number, number];
type Three = readonly [number, number, number];
type Four = readonly [number, number, number, number];
type One<T> = T extends `${string}vec2`
  ? Two
  : T extends `${string}vec3`
    ? Three
    : T extends `${string}vec4`
      ? Four
      : number;
type NumbersOf<T extends Table> = {
  readonly [Name in keyof T]: T[Name] extends `${infer Element}[${number}]`
    ? readonly One<Element>[]
    : One<T[Name]>;
};

/** An array of vec4 or ivec4 in which slots lie: its name in GLSL, its first word, how many there are. */
interface Bank {
  readonly name: string;
  readonly word: number;
  readonly lines: number;
}

/** The arrays at the end of the prelude's Pass. */
const PASS = {
  integers: { name: "u.i", word: INTEGERS, lines: 8 },
  floats: { name: "u.f", word: FLOATS, lines: 4 },
};

export interface Slots<T extends Table> {
  /** Lines of GLSL. */
  readonly macros: string;
  /** The words of all slots: none may be left out. */
  fill(numbers: NumbersOf<T>): SlotWords;
}

/** By std140's rule: no slot crosses a vec4, each element of an array has one. */
export function slots<const T extends Table>(
  table: T,
  banks: { readonly integers: Bank; readonly floats?: Bank } = PASS,
): Slots<T> {
  const used = new Map<Bank, number>();
  const placed = Object.entries(table).map(([name, declared]) => {
    const [type = "", length] = declared.split(/[[\]]/);
    const size = SIZES[type as Type];
    const isFloat = !type.startsWith("i");
    const bank = isFloat ? banks.floats : banks.integers;
    if (bank === undefined) throw new Error(`u_${name} is a float, of which the shader has none`);
    let first = used.get(bank) ?? 0;
    if (length !== undefined || (first % 4) + size > 4) first = 4 * Math.ceil(first / 4);
    const end = first + (length === undefined ? size : 4 * Number(length));
    if (end > 4 * bank.lines) throw new Error(`u_${name} has no room: ${bank.name} is full`);
    used.set(bank, end);
    const line = Math.floor(first / 4);
    const lanes = size === 4 ? "" : `.${"xyzw".slice(first % 4, (first % 4) + size)}`;
    const macro =
      length === undefined
        ? `#define u_${name} ${bank.name}[${line}]${lanes}`
        : `#define u_${name}(k) ${bank.name}[${line} + (k)]${lanes}`;
    return { name, macro, isFloat, word: bank.word + first };
  });
  return {
    macros: placed.map(({ macro }) => macro).join("\n"),
    fill: (numbers) =>
      placed.flatMap(({ name, isFloat, word }) => {
        const given: number | readonly (number | readonly number[])[] = numbers[name] ?? [];
        const list = typeof given === "number" ? [given] : given;
        const isArray = typeof list[0] === "object";
        const elements = isArray ? (list as readonly number[][]) : [list as readonly number[]];
        return elements.map((values, k) => ({ word: word + 4 * k, values, isFloat }));
      }),
  };
}
