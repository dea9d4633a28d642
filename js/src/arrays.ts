// Arrays by name, as scripts of a page give and get them.
import { PlanError } from "./gl/types.ts";

/** One array by name. */
export type Arrays = Readonly<Record<string, Float32Array>>;

/** Arrays with their names: one alone is that of the only input. */
export function namedArrays(
  input: Float32Array | Arrays,
  inputs: readonly { readonly key: string }[],
): [string, Float32Array][] {
  if (!(input instanceof Float32Array)) return Object.entries(input);
  const [first] = inputs;
  if (first === undefined || inputs.length !== 1) {
    throw new PlanError(`this network has ${inputs.length} inputs: give { name: array }`);
  }
  return [[first.key, input]];
}

/** The only array, or all by name where there are several. */
export function onlyOrAll(arrays: readonly [string, Float32Array][]): Float32Array | Arrays {
  const [only] = arrays;
  if (arrays.length === 1 && only !== undefined) return only[1];
  const result: Record<string, Float32Array> = Object.create(null); // names come from a file
  for (const [key, array] of arrays) result[key] = array;
  return result;
}
