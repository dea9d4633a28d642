// What TypeScript makes of cases in JSON, for tests/edits/test_cross_language.py, which compares it with Python's.
import { readFileSync } from "node:fs";
import { parseNumber } from "../src/features/edits/views/parameter_text.ts";
import { buildEditStacks, isActive } from "../src/plan/edit_stacks.ts";
import { type Edit, type Parameter, TRANSFORMS } from "../src/plan/edits.ts";
import type { PlanHeader } from "../src/plan/schema.ts";
import { Sections } from "../src/plan/sections.ts";
import { findSkippedPasses } from "../src/plan/skipped_passes.ts";

interface Cases {
  readonly plans: readonly PlanHeader[];
  readonly schedules: readonly { readonly plan: number; readonly edits: readonly Edit[] }[];
  readonly numbers: readonly string[];
}

const { plans, schedules, numbers } = JSON.parse(readFileSync(0, "utf8")) as Cases;

function describeSchedule(plan: PlanHeader, edits: readonly Edit[]) {
  const skipped = findSkippedPasses(plan, edits);
  const stacks = buildEditStacks(plan, edits.filter(isActive)).filter(({ valueIndex }) => {
    return !skipped.valueIndices.has(valueIndex);
  });
  return {
    stacks: stacks.map(({ valueIndex, edits: own }) => [valueIndex, own.map(({ name }) => name)]),
    passes: [...skipped.passIndices].sort((a, b) => a - b),
    values: [...skipped.valueIndices].sort((a, b) => a - b),
  };
}

const isValidNumber = (number: string, parameter: Parameter): boolean =>
  typeof parseNumber(number, parameter) === "number";

const results = {
  schedules: schedules.map(({ plan, edits }) => describeSchedule(plans[plan] as PlanHeader, edits)),
  sections: plans.map((plan) => {
    return [...plan.sections.keys()].map((number) => new Sections(plan).requiredSections([number]));
  }),
  numbers: TRANSFORMS.flatMap(({ name, parameters }) =>
    parameters.map((one) => [name, one.name, numbers.map((number) => isValidNumber(number, one))]),
  ),
};
console.log(JSON.stringify(results));
