// Which inputs have to be given: the others begin as a weight, in place of random numbers.
import type { PlanHeader } from "./schema.ts";

export function requiredInputs({ inputs, weights }: PlanHeader): PlanHeader["inputs"] {
  return inputs.filter(({ step }) => weights.every(({ texture }) => texture !== step.output));
}
