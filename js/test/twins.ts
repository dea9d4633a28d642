// What TypeScript makes of cases in JSON, for tests/edits/test_twins.py, which compares it with Python's.
import { readFileSync } from "node:fs";
import { parsed } from "../src/features/edits/views/numbers.ts";
import { acts, stacksOf } from "../src/plan/edit_stacks.ts";
import { type Edit, type Parameter, TRANSFORMS } from "../src/plan/edits.ts";
import type { PlanHeader } from "../src/plan/schema.ts";
import { Sections } from "../src/plan/sections.ts";
import { skippedBy } from "../src/plan/skipped_passes.ts";

interface Cases {
  readonly plans: readonly PlanHeader[];
  readonly schedules: readonly { readonly plan: number; readonly edits: readonly Edit[] }[];
  readonly numbers: readonly string[];
}

const { plans, schedules, numbers } = JSON.parse(readFileSync(0, "utf8")) as Cases;

function schedule(plan: PlanHeader, edits: readonly Edit[]) {
  const skipped = skippedBy(plan, edits);
  const stacks = stacksOf(plan, edits.filter(acts)).filter(({ number }) => {
    return !skipped.values.has(number);
  });
  return {
    stacks: stacks.map(({ number, edits: own }) => [number, own.map(({ name }) => name)]),
    passes: [...skipped.passes].sort((a, b) => a - b),
    values: [...skipped.values].sort((a, b) => a - b),
  };
}

const isTaken = (number: string, parameter: Parameter): boolean =>
  typeof parsed(number, parameter) === "number";

const found = {
  schedules: schedules.map(({ plan, edits }) => schedule(plans[plan] as PlanHeader, edits)),
  sections: plans.map((plan) => {
    return [...plan.sections.keys()].map((number) => new Sections(plan).needed([number]));
  }),
  numbers: TRANSFORMS.flatMap(({ name, parameters }) =>
    parameters.map((one) => [name, one.name, numbers.map((number) => isTaken(number, one))]),
  ),
};
console.log(JSON.stringify(found));
