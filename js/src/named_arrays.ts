// Named arrays and pictures, as scripts of a page pass them, and named arrays, as they receive them.
import { type ImageSource, PlanError } from "./plan/runtime.ts";

/** Arrays by name. */
export type Arrays = Readonly<Record<string, Float32Array>>;
/** Data for an input: its values in row-major order, or a picture to convert to them. */
export type InputData = Float32Array | ImageSource;

/** Whether this is a canvas, image, video or similar object, from any window: it has a width. */
export function isPicture(source: unknown): source is ImageSource {
  const { width, displayWidth } = Object(source) as Record<string, unknown>;
  return typeof width === "number" || typeof displayWidth === "number";
}

/** The inputs as pairs of name and data; unnamed data belongs to the only input. */
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

/** The array if there is only one, else all arrays by name. */
export function singleOrNamed(arrays: readonly [string, Float32Array][]): Float32Array | Arrays {
  const [only] = arrays;
  if (arrays.length === 1 && only !== undefined) return only[1];
  const result: Record<string, Float32Array> = Object.create(null); // untrusted names from a file
  for (const [key, array] of arrays) result[key] = array;
  return result;
}
