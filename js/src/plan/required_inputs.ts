// Which inputs have to be given: the others begin as a weight, in place of random numbers.
import type { PlanHeader } from "./schema.ts";

export function requiredInputs({ inputs, weights }: PlanHeader): PlanHeader["inputs"] {
  return inputs.filter(({ pack_pass }) =>
    weights.every(({ texture }) => texture !== pack_pass.output),
  );
}
