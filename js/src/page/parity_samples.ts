// The framework's reference samples in an exported page, and their comparison with the device's values.

import type { ExampleMismatch, SampleRequest } from "../engine/value_samples.ts";
import type { ParitySamples } from "../messages.ts";
import type { PlanHeader, Value } from "../plan/schema.ts";
import type { ParityResult } from "../state/connection.ts";

export const sampleRequests = ({ keys, spans }: ParitySamples): SampleRequest[] =>
  keys.map((key, k) => ({ key, bands: spans[k] ?? [] }));

/** `numbers` are the reference values, `texels` the device's, in the order of the samples' bands. */
export function compareSamples(
  plan: PlanHeader,
  samples: ParitySamples,
  numbers: Float32Array,
  texels: readonly Float32Array[],
  apart: readonly ExampleMismatch[],
): Pick<ParityResult, "layers" | "note"> {
  const values = new Map(plan.values.map((value) => [value.key, value]));
  const wrong = apart.filter(([key]) => samples.equal_examples.includes(key));
  let at = 0;
  const layers = samples.keys.map((key, k) => {
    const found = sampledElements(values.get(key) as Value, samples.spans[k] ?? [], texels[k]);
    const { error, isSame } = compareNumbers(found, numbers.subarray(at, at + found.length));
    at += found.length;
    const isOk = isSame && error <= (samples.tolerances[k] ?? 0);
    return [key, error, isOk && !wrong.some(([name]) => name === key)] as const;
  });
  const [first] = wrong;
  const note = first
    ? `example ${first[2]} of ${first[0]} differs from example ${first[1]}, which has the same input`
    : "";
  return { layers, note };
}

/** The sampled elements in a value's texels; the last texel may hold fewer than four. */
function sampledElements(
  { readback }: Value,
  bands: ParitySamples["spans"][number],
  texels: Float32Array | undefined,
): number[] {
  const found: number[] = [];
  let at = 0;
  for (const [x, y, width] of bands) {
    const left = readback.count - 4 * (y * readback.draw_pass.viewport[0] + x);
    found.push(...(texels?.subarray(at, at + Math.min(4 * width, left)) ?? []));
    at += 4 * width;
  }
  return found;
}

/** The largest difference between finite values, and whether NaN and infinities are at the same positions. */
function compareNumbers(found: readonly number[], expected: Float32Array) {
  let error = 0;
  let isSame = found.length === expected.length;
  for (const [k, own] of found.entries()) {
    const one = expected[k] as number;
    if (Number.isFinite(own) && Number.isFinite(one)) error = Math.max(error, Math.abs(own - one));
    else isSame &&= Object.is(own, one);
  }
  return { error, isSame };
}
