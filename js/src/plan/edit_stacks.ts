// Which edits run where: the edit stacks of a Plan's values, in the order in which they run; as in
// features/edits/edit_stacks.py.
import type { Edit } from "./edits.ts";
import type { PlanHeader, Value } from "./schema.ts";

/** The active edits of one value, in their order; `valueIndex` is the value's number in the Plan. */
export interface EditStack {
  readonly valueIndex: number;
  readonly value: Value;
  readonly edits: readonly Edit[];
}

type ValueTable = Pick<PlanHeader, "values">;
/** The texture of each edited value after its edits, by value number. */
export type EditedTextures = ReadonlyMap<number, number>;

/**
 * One stack for each value that has edits, or shares those of another value; a view follows the value it is a view of.
 */
export function buildEditStacks(plan: ValueTable, edits: readonly Edit[]): EditStack[] {
  const numbers = new Map(plan.values.map(({ key }, number) => [key, number]));
  const more = new Map<string, number[]>();
  for (const [number, { shares_edits_of }] of plan.values.entries())
    if (shares_edits_of !== "")
      more.set(shares_edits_of, [...(more.get(shares_edits_of) ?? []), number]);
  const found = new Map<number, Edit[]>();
  const add = (number: number, edit: Edit) =>
    found.set(number, [...(found.get(number) ?? []), edit]);
  for (const edit of edits) {
    add(numbers.get(edit.layer) ?? -1, edit);
    if (edit.array_hash === "") for (const number of more.get(edit.layer) ?? []) add(number, edit);
  }
  return [...found]
    .flatMap(([number, own]) => {
      const value = plan.values[number];
      return value === undefined ? [] : [{ valueIndex: number, value, edits: own }];
    })
    .sort(
      (a, b) =>
        a.value.edit_pass - b.value.edit_pass ||
        viewChainDepth(plan, a.valueIndex) - viewChainDepth(plan, b.valueIndex),
    );
}

function viewChainDepth(plan: ValueTable, valueIndex: number): number {
  let count = 0;
  for (let at = plan.values[valueIndex]?.view_of ?? -1; at >= 0; count++) {
    at = plan.values[at]?.view_of ?? -1;
  }
  return count;
}

/** The texture of a value before its own edits. */
export function sourceTexture(
  plan: ValueTable,
  valueIndex: number,
  editedTextures: EditedTextures,
): number {
  const { view_of = -1, texture = -1 } = plan.values[valueIndex] ?? {};
  return view_of < 0 ? texture : editedTexture(plan, view_of, editedTextures);
}

/** The texture that holds a value after its edits, as its key returns it. */
export function editedTexture(
  plan: ValueTable,
  valueIndex: number,
  editedTextures: EditedTextures,
): number {
  return editedTextures.get(valueIndex) ?? sourceTexture(plan, valueIndex, editedTextures);
}

/** Whether an edit has an effect. */
export const isActive = ({ enabled, mix, channels }: Edit): boolean =>
  enabled && mix > 0 && channels?.length !== 0;
