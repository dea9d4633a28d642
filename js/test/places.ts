// Answers tests of receptive fields in Python: what the page finds in the headers of Plans, as JSON.
import { readFileSync } from "node:fs";
import { Fields } from "../src/explain/fields.ts";
import { type Mask, placeOf } from "../src/explain/places.ts";
import type { PlanHeader } from "../src/plan/schema.ts";

interface Question {
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

const marked = (mask: Mask): number[] => [...mask.keys()].filter((place) => mask[place] === 1);

const questions: readonly Question[] = JSON.parse(readFileSync(0, "utf8"));
const answers = questions.map(({ plan, asked }) => {
  const fields = new Fields(plan);
  return asked.map(({ key, shape, places, at, way }) => {
    const found = fields[way](key, placeOf(shape, places, at));
    return [...found].map(([name, mask]) => [name, marked(mask)]);
  });
});
process.stdout.write(JSON.stringify(answers));
