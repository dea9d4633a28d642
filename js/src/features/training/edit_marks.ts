// Marks on the loss curve for edits made while the page trains. In a notebook Python records them (`_edit_marks` in
// features/training/host.py).

import type { Edit } from "../../plan/edits.ts";
import { type EditMark, MOST_MARKS, ONE_TOUCH } from "./records.ts";

/** Add marks for the edits that changed after a step. */
export function updateMarks(
  marks: readonly EditMark[],
  before: readonly Edit[],
  now: readonly Edit[],
  step: number,
): readonly EditMark[] {
  const [old, own] = [before, now].map(
    (edits) =>
      new Map(edits.filter(({ array_hash }) => array_hash === "").map((edit) => [edit.name, edit])),
  ) as [Map<string, Edit>, Map<string, Edit>];
  const found = [...marks];
  for (const name of new Set([...old.keys(), ...own.keys()])) {
    const how = editChangeText(old.get(name), own.get(name));
    const { layer, transform } = (own.get(name) ?? old.get(name)) as Edit;
    const text = `${layer}: ${transform}${how}`;
    const last = found.at(-1);
    if (how !== undefined && !(last?.text === text && step - last.step < ONE_TOUCH))
      found.push({ step, text });
  }
  return found.length === marks.length ? marks : found.slice(-MOST_MARKS);
}

/** The change of an edit as text; undefined if it is unchanged. */
function editChangeText(was: Edit | undefined, is: Edit | undefined): string | undefined {
  if (was === undefined) return "";
  if (is === undefined) return " removed";
  if (was.enabled !== is.enabled) return is.enabled ? " on" : " off";
  return JSON.stringify(was) === JSON.stringify(is) ? undefined : " changed";
}
