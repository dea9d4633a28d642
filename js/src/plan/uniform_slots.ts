// Named uniform slots of the page's own shaders and of edits; codegen/uniform_slots.py does the same for a Plan. A
// table of names and GLSL types yields the macros (u_name) by which the shader reads its values, and the words to which
// they are written.
import { FIRST_FLOAT_WORD, FIRST_INT_WORD, type SlotWords } from "./uniforms.ts";

/** Number of components of a GLSL type. */
const COMPONENT_COUNTS = {
  int: 1,
  ivec2: 2,
  ivec3: 3,
  ivec4: 4,
  float: 1,
  vec2: 2,
  vec3: 3,
  vec4: 4,
};
type GlslType = keyof typeof COMPONENT_COUNTS;
/** Names in order, each with its type, or with its element type and length if it is an array. */
type SlotTable = Readonly<Record<string, GlslType | `${GlslType}[${number}]`>>;

type Vec2 = readonly [number, number];
type Vec3 = readonly [number, number, number];
type Vec4 = readonly [number, number, number, number];
type SlotElement<T> = T extends `${string}vec2`
  ? Vec2
  : T extends `${string}vec3`
    ? Vec3
    : T extends `${string}vec4`
      ? Vec4
      : number;
type SlotValues<T extends SlotTable> = {
  readonly [Name in keyof T]: T[Name] extends `${infer Element}[${number}]`
    ? readonly SlotElement<Element>[]
    : SlotElement<T[Name]>;
};

/** An array of vec4 or ivec4 that holds slots: its GLSL name, first word and length. */
interface SlotBank {
  readonly name: string;
  readonly firstWord: number;
  readonly vectorCount: number;
}

/** The arrays at the end of the prelude's uniform block `Pass`. */
const PASS_BANKS = {
  integers: { name: "u.i", firstWord: FIRST_INT_WORD, vectorCount: 8 },
  floats: { name: "u.f", firstWord: FIRST_FLOAT_WORD, vectorCount: 4 },
};

export interface UniformSlots<T extends SlotTable> {
  /** GLSL `#define` lines. */
  readonly macros: string;
  /** The words of all slots; a value is required for each. */
  fill(slotValues: SlotValues<T>): SlotWords;
}

/** Lay out slots by the std140 rules: no slot crosses a vec4, and each array element has its own vec4. */
export function uniformSlots<const T extends SlotTable>(
  table: T,
  banks: { readonly integers: SlotBank; readonly floats?: SlotBank } = PASS_BANKS,
): UniformSlots<T> {
  const used = new Map<SlotBank, number>();
  const placed = Object.entries(table).map(([name, declared]) => {
    const [type = "", length] = declared.split(/[[\]]/);
    const size = COMPONENT_COUNTS[type as GlslType];
    const isFloat = !type.startsWith("i");
    const bank = isFloat ? banks.floats : banks.integers;
    if (bank === undefined) throw new Error(`u_${name} is a float, of which the shader has none`);
    let first = used.get(bank) ?? 0;
    if (length !== undefined || (first % 4) + size > 4) first = 4 * Math.ceil(first / 4);
    const end = first + (length === undefined ? size : 4 * Number(length));
    if (end > 4 * bank.vectorCount) throw new Error(`u_${name} has no room: ${bank.name} is full`);
    used.set(bank, end);
    const line = Math.floor(first / 4);
    const lanes = size === 4 ? "" : `.${"xyzw".slice(first % 4, (first % 4) + size)}`;
    const macro =
      length === undefined
        ? `#define u_${name} ${bank.name}[${line}]${lanes}`
        : `#define u_${name}(k) ${bank.name}[${line} + (k)]${lanes}`;
    return { name, macro, isFloat, word: bank.firstWord + first };
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
