// Marks on the loss curve for edits made while the page trains. In a notebook Python records them (`_edit_marks` in
// features/training/host.py).

import type { Edit } from "../../plan/edits.ts";
import { type EditMark, MARK_MERGE_STEPS, MAX_MARKS } from "./records.ts";

/** Add marks for the edits that changed after a step. */
export function addEditMarks(
  marks: readonly EditMark[],
  previousEdits: readonly Edit[],
  currentEdits: readonly Edit[],
  step: number,
): readonly EditMark[] {
  const [old, own] = [previousEdits, currentEdits].map(
    (edits) =>
      new Map(edits.filter(({ array_hash }) => array_hash === "").map((edit) => [edit.name, edit])),
  ) as [Map<string, Edit>, Map<string, Edit>];
  const found = [...marks];
  for (const name of new Set([...old.keys(), ...own.keys()])) {
    const how = editChangeText(old.get(name), own.get(name));
    const { layer, transform } = (own.get(name) ?? old.get(name)) as Edit;
    const text = `${layer}: ${transform}${how}`;
    const last = found.at(-1);
    if (how !== undefined && !(last?.text === text && step - last.step < MARK_MERGE_STEPS))
      found.push({ step, text });
  }
  return found.length === marks.length ? marks : found.slice(-MAX_MARKS);
}

/** The change of an edit as text; undefined if it is unchanged. */
function editChangeText(before: Edit | undefined, after: Edit | undefined): string | undefined {
  if (before === undefined) return "";
  if (after === undefined) return " removed";
  if (before.enabled !== after.enabled) return after.enabled ? " on" : " off";
  return JSON.stringify(before) === JSON.stringify(after) ? undefined : " changed";
}
