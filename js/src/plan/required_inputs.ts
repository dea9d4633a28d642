// The inputs that the caller must set. Other inputs are initialised from a weight; they replace random numbers.
import type { PlanHeader } from "./schema.ts";

export function requiredInputs({ inputs, weights }: PlanHeader): PlanHeader["inputs"] {
  return inputs.filter(({ pack_pass }) =>
    weights.every(({ texture }) => texture !== pack_pass.output),
  );
}
