// What is said of a teaching.
import { full } from "../../../format.ts";
import type { Taught } from "../changes.ts";
import type { Busy } from "../learn.ts";
import type { TeachingRecord } from "../records.ts";

export const examplesWords = (count: number): string =>
  count === 1 ? "1 example" : `${full(count)} examples`;

export function valueWords({ cut, count, averaged }: TeachingRecord): string {
  const channels = `the means of ${cut}’s ${full(count)} channels over height and width`;
  return averaged ? channels : `the ${full(count)} numbers of ${cut}`;
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
      : `It has learned from ${examplesWords(count)} and tells ${full(right)} of them right.`;
  const held =
    held_count === 0
      ? ""
      : ` A check on the last fifth of each class, by a head that hasn’t seen it: ${full(held_right)} of ${full(held_count)} right.`;
  const old = outdated ? " Classes or examples have changed since then." : "";
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
