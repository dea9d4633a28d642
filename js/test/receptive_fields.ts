// Answers tests of receptive fields in Python: what the page finds in the headers of Plans, as JSON.
import { readFileSync } from "node:fs";
import { elementMask, type Mask } from "../src/explain/masks.ts";
import { FieldPropagator } from "../src/explain/receptive_fields.ts";
import type { PlanHeader } from "../src/plan/schema.ts";

interface FieldQuery {
  readonly plan: PlanHeader;
  /** A layer's or input's key, its shape and places, an element, and which way to look. */
  readonly asked: readonly {
    readonly key: string;
    readonly shape: readonly number[];
    readonly places: readonly number[];
    readonly at: readonly number[];
    readonly way: "receptive" | "projective";
  }[];
}

const markedIndices = (mask: Mask): number[] =>
  [...mask.keys()].filter((place) => mask[place] === 1);

const fieldQueries: readonly FieldQuery[] = JSON.parse(readFileSync(0, "utf8"));
const fieldAnswers = fieldQueries.map(({ plan, asked }) => {
  const fields = new FieldPropagator(plan);
  return asked.map(({ key, shape, places, at, way }) => {
    const found = fields[`${way}Field`](key, elementMask(shape, places, at));
    return [...found].map(([name, mask]) => [name, markedIndices(mask)]);
  });
});
process.stdout.write(JSON.stringify(fieldAnswers));
