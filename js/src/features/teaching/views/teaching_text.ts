// What is said of a teaching.
import { formatInteger } from "../../../number_format.ts";
import type { BusyStatus } from "../head_training.ts";
import type { Lesson } from "../lesson_changes.ts";
import type { TeachingRecord } from "../records.ts";

export const examplesText = (count: number): string =>
  count === 1 ? "1 example" : `${formatInteger(count)} examples`;

export function featuresText({ cut, count, averaged }: TeachingRecord): string {
  const channels = `the means of ${cut}’s ${formatInteger(count)} channels over height and width`;
  return averaged ? channels : `the ${formatInteger(count)} numbers of ${cut}`;
}

/** A name that no class has yet. */
export function unusedClassName(names: readonly string[]): string {
  let number = names.length + 1;
  while (names.includes(`class ${number}`)) number += 1;
  return `class ${number}`;
}

/** What a training still needs; "" for nothing. */
export function missingText({ classes, examples }: Lesson): string {
  if (classes.length < 2) return "A head tells at least two classes apart: add another one.";
  const empty = classes.filter(({ id }) => !examples.some(({ classId }) => classId === id));
  if (empty.length === 0) return "";
  const names = empty.map(({ name }) => `“${name}”`).join(", ");
  return `Collect examples of ${names}: hold the button while they are seen.`;
}

export function headText(taught: Lesson, outdated: boolean): string {
  const { head } = taught;
  if (head === null) return "";
  const { right, count, held_right, held_count } = head;
  const own =
    count === 0
      ? "A head was given."
      : `It has learned from ${examplesText(count)} and tells ${formatInteger(right)} of them right.`;
  const held =
    held_count === 0
      ? ""
      : ` A check on the last fifth of each class, by a head that hasn’t seen it: ${formatInteger(held_right)} of ${formatInteger(held_count)} right.`;
  const old = outdated ? " Classes or examples have changed since then." : "";
  return own + held + old;
}

export function busyText({ task, done, total }: BusyStatus): string {
  switch (task) {
    case "training":
      return "Training…";
    case "computing":
      return `Computing features, ${formatInteger(done)} of ${formatInteger(total)}…`;
    case "coming":
      return `Examples are on their way from Python, ${formatInteger(done)} of ${formatInteger(total)}…`;
  }
}
