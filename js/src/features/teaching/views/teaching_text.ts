// Texts of the Teach tab.
import { formatInteger } from "../../../number_format.ts";
import type { BusyStatus } from "../head_training.ts";
import type { Lesson } from "../lesson_changes.ts";
import type { TeachingRecord } from "../records.ts";

export const examplesText = (count: number): string =>
  count === 1 ? "1 example" : `${formatInteger(count)} examples`;

export function featuresText({ layer, feature_count, averaged }: TeachingRecord): string {
  const channels = `the means of ${layer}’s ${formatInteger(feature_count)} channels over height and width`;
  return averaged ? channels : `the ${formatInteger(feature_count)} values of ${layer}`;
}

/** A class name that is not in use. */
export function unusedClassName(names: readonly string[]): string {
  let number = names.length + 1;
  while (names.includes(`class ${number}`)) number += 1;
  return `class ${number}`;
}

/** The requirement that training still lacks; "" if none. */
export function missingRequirementText({ classes, examples }: Lesson): string {
  if (classes.length < 2) return "A classifier needs at least two classes. Add another class.";
  const empty = classes.filter(({ id }) => !examples.some(({ classId }) => classId === id));
  if (empty.length === 0) return "";
  const names = empty.map(({ name }) => `“${name}”`).join(", ");
  return `Collect examples of ${names}: hold the button while they are visible.`;
}

export function headText(lesson: Lesson, isOutdated: boolean): string {
  const { head } = lesson;
  if (head === null) return "";
  const { correct, count, held_out_correct, held_out_count } = head;
  const own =
    count === 0
      ? "The classifier was set from Python."
      : `Trained on ${examplesText(count)}; training accuracy: ${formatInteger(correct)} of ${formatInteger(count)}.`;
  const held =
    held_out_count === 0
      ? ""
      : ` Validation on the last 20 % of each class, not used for training: ${formatInteger(held_out_correct)} of ${formatInteger(held_out_count)} correct.`;
  const old = isOutdated ? " Classes or examples have changed since then." : "";
  return own + held + old;
}

export function busyText({ task, done, total }: BusyStatus): string {
  switch (task) {
    case "training":
      return "Training…";
    case "computing":
      return `Computing features, ${formatInteger(done)} of ${formatInteger(total)}…`;
    case "coming":
      return `Loading examples from Python, ${formatInteger(done)} of ${formatInteger(total)}…`;
  }
}
