// Which edits run where: the stacks of a Plan's values, in the order in which they run; as features/edits/stacks.py in Python.
import type { Edit } from "./edits.ts";
import type { PlanHeader, Value } from "./schema.ts";

/** The active edits of one value, `number` among the Plan's, in their order. */
export interface Stack {
  readonly number: number;
  readonly value: Value;
  readonly edits: readonly Edit[];
}

type Values = Pick<PlanHeader, "values">;
/** Where edited values lie after their edits, by their number. */
export type Bent = ReadonlyMap<number, number>;

/** One for each value that has edits, or is edited as one that has; behind the one that it is a view of. */
export function stacksOf(plan: Values, edits: readonly Edit[]): Stack[] {
  const numbers = new Map(plan.values.map(({ key }, number) => [key, number]));
  const more = new Map<string, number[]>();
  for (const [number, { edited_as }] of plan.values.entries())
    if (edited_as !== "") more.set(edited_as, [...(more.get(edited_as) ?? []), number]);
  const found = new Map<number, Edit[]>();
  const add = (number: number, edit: Edit) =>
    found.set(number, [...(found.get(number) ?? []), edit]);
  for (const edit of edits) {
    add(numbers.get(edit.layer) ?? -1, edit);
    if (edit.array === "") for (const number of more.get(edit.layer) ?? []) add(number, edit);
  }
  return [...found]
    .flatMap(([number, own]) => {
      const value = plan.values[number];
      return value === undefined ? [] : [{ number, value, edits: own }];
    })
    .sort((a, b) => a.value.after - b.value.after || depth(plan, a.number) - depth(plan, b.number));
}

function depth(plan: Values, number: number): number {
  let count = 0;
  for (let at = plan.values[number]?.source ?? -1; at >= 0; count++) {
    at = plan.values[at]?.source ?? -1;
  }
  return count;
}

/** The texture of a value before its own edits. */
export function sourceOf(plan: Values, number: number, bent: Bent): number {
  const { source = -1, texture = -1 } = plan.values[number] ?? {};
  return source < 0 ? texture : textureOf(plan, source, bent);
}

/** The texture that holds a value as its key has it. */
export function textureOf(plan: Values, number: number, bent: Bent): number {
  return bent.get(number) ?? sourceOf(plan, number, bent);
}

/** Whether an edit changes something. */
export const acts = ({ enabled, mix, channels }: Edit): boolean =>
  enabled && mix > 0 && channels?.length !== 0;
