// The framework's reference samples in an exported page, and their comparison with the device's values.

import type { ExampleMismatch, SampleRequest } from "../engine/value_samples.ts";
import type { ParitySamples } from "../messages.ts";
import type { PlanHeader, Value } from "../plan/schema.ts";
import type { ParityResult } from "../state/connection.ts";

export const sampleRequests = ({ keys, spans }: ParitySamples): SampleRequest[] =>
  keys.map((key, k) => ({ key, spans: spans[k] ?? [] }));

/** `referenceValues` are the reference values, `deviceTexels` the device's, in the order of the samples' bands. */
export function compareSamples(
  plan: PlanHeader,
  samples: ParitySamples,
  referenceValues: Float32Array,
  deviceTexels: readonly Float32Array[],
  mismatches: readonly ExampleMismatch[],
): Pick<ParityResult, "layers" | "note"> {
  const values = new Map(plan.values.map((value) => [value.key, value]));
  const wrong = mismatches.filter(([key]) => samples.equal_examples.includes(key));
  let at = 0;
  const layers = samples.keys.map((key, k) => {
    const found = sampledElements(
      values.get(key) as Value,
      samples.spans[k] ?? [],
      deviceTexels[k],
    );
    const { error, isSame } = compareNumbers(
      found,
      referenceValues.subarray(at, at + found.length),
    );
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
  spans: ParitySamples["spans"][number],
  texels: Float32Array | undefined,
): number[] {
  const found: number[] = [];
  let at = 0;
  for (const [x, y, width] of spans) {
    const left = readback.count - 4 * (y * readback.draw_pass.viewport[0] + x);
    found.push(...(texels?.subarray(at, at + Math.min(4 * width, left)) ?? []));
    at += 4 * width;
  }
  return found;
}

/** The largest difference between finite values, and whether NaN and infinities are at the same positions. */
function compareNumbers(deviceValues: readonly number[], referenceValues: Float32Array) {
  let error = 0;
  let isSame = deviceValues.length === referenceValues.length;
  for (const [k, own] of deviceValues.entries()) {
    const one = referenceValues[k] as number;
    if (Number.isFinite(own) && Number.isFinite(one)) error = Math.max(error, Math.abs(own - one));
    else isSame &&= Object.is(own, one);
  }
  return { error, isSame };
}
