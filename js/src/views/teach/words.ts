// What is said of a teaching.
import { full } from "../../format.ts";
import type { Taught } from "../../teaching/changes.ts";
import type { Busy } from "../../teaching/store.ts";
import type { TeachingRecord } from "../../teaching.ts";

export const examplesWords = (count: number): string =>
  count === 1 ? "1 example" : `${full(count)} examples`;

export function valueWords({ cut, count, averaged }: TeachingRecord): string {
  const what = averaged ? "its channels’ means over height and width" : "its numbers";
  return `the ${full(count)} features of ${cut}, ${what}`;
}

/** A name that no class has yet. */
export function freeName(names: readonly string[]): string {
  let number = names.length + 1;
  while (names.includes(`class ${number}`)) number += 1;
  return `class ${number}`;
}

/** What a training still needs; "" for nothing. */
export function missingWords({ classes, examples }: Taught): string {
  if (classes.length < 2) return "A head tells at least two classes apart: add another one.";
  const empty = classes.filter(({ id }) => !examples.some(({ of }) => of === id));
  if (empty.length === 0) return "";
  const names = empty.map(({ name }) => `“${name}”`).join(", ");
  return `Collect examples of ${names}: hold the button while they are seen.`;
}

export function headWords(taught: Taught, outdated: boolean): string {
  const { head } = taught;
  if (head === null) return "";
  const { right, count, held_right, held_count } = head;
  const own =
    count === 0
      ? "A head was given."
      : `Of the ${full(count)} examples that it learned from the head tells ${full(right)} right.`;
  const held =
    held_count === 0
      ? ""
      : ` Of the last fifth of each class, ${full(held_count)} examples, one that learned from the others alone tells ${full(held_right)} right.`;
  const old = outdated ? " Classes or examples have changed since: train again." : "";
  return own + held + old;
}

export function busyWords({ what, done, total }: Busy): string {
  switch (what) {
    case "training":
      return "Training…";
    case "computing":
      return `Computing features, ${full(done)} of ${full(total)}…`;
    case "coming":
      return `Examples are on their way from Python, ${full(done)} of ${full(total)}…`;
  }
}
