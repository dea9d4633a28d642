// Arrays and pictures by name, as scripts of a page give them, and arrays as they get them.
import { type ImageSource, PlanError } from "./plan/runtime.ts";

/** One array by name. */
export type Arrays = Readonly<Record<string, Float32Array>>;
/** What an input is made of: its numbers in row-major order, or a picture that becomes them. */
export type InputData = Float32Array | ImageSource;

/** A canvas, an image, a video or the like, of any window: it has a width. */
export function isPicture(given: unknown): given is ImageSource {
  const { width, displayWidth } = Object(given) as Record<string, unknown>;
  return typeof width === "number" || typeof displayWidth === "number";
}

/** What is given with its name: one alone is that of the only input. */
export function namedInputs(
  input: InputData | Readonly<Record<string, InputData>>,
  inputs: readonly { readonly key: string }[],
): [string, InputData][] {
  if (!(input instanceof Float32Array || isPicture(input))) return Object.entries(input);
  const [first] = inputs;
  if (first === undefined || inputs.length !== 1) {
    throw new PlanError(
      `this network has ${inputs.length} inputs: give { name: array or picture }`,
    );
  }
  return [[first.key, input]];
}

/** The only array, or all by name where there are several. */
export function singleOrNamed(arrays: readonly [string, Float32Array][]): Float32Array | Arrays {
  const [only] = arrays;
  if (arrays.length === 1 && only !== undefined) return only[1];
  const result: Record<string, Float32Array> = Object.create(null); // names come from a file
  for (const [key, array] of arrays) result[key] = array;
  return result;
}
