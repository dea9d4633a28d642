// Building blocks of constraints.ts, which is translated from Python: a constraint, and the Python builtins that it
// uses.

import type { PlanHeader } from "./schema.ts";

/** Records of a header, and the label of each in messages. */
export interface RecordSet<Item> {
  readonly select: (header: PlanHeader) => readonly Item[];
  readonly label: (header: PlanHeader, number: number) => string;
}

/** Returns the message of the first record that violates a constraint; undefined if none does. */
export type Constraint<Index> = (index: Index) => string | undefined;

/**
 * Make a constraint: `holds` must be true for each record; `message` describes a violation, given the record's name.
 */
export function constraint<Item, Index extends { readonly header: PlanHeader }>(
  records: readonly RecordSet<Item>[],
  holds: (index: Index, number: number, item: Item) => boolean,
  message: (index: Index, name: string, item: Item) => string,
): Constraint<Index> {
  return (index) => {
    for (const { select, label } of records) {
      for (const [k, item] of select(index.header).entries()) {
        if (!holds(index, k, item)) return message(index, label(index.header, k), item);
      }
    }
    return undefined;
  };
}

/** Index into items; an earlier constraint has checked that the item exists. */
export function at<Item>(items: readonly Item[], index: number): Item {
  const item = items[index];
  if (item === undefined) throw new RangeError(`no item ${index} of ${items.length}`);
  return item;
}

export function has<Item>(
  items: readonly Item[] | ReadonlySet<Item> | ReadonlyMap<Item, unknown>,
  item: Item,
): boolean {
  return "includes" in items ? items.includes(item) : items.has(item);
}

export const len = (items: readonly unknown[] | ReadonlySet<unknown>): number =>
  "length" in items ? items.length : items.size;

export const range = (end: number): number[] => Array.from({ length: end }, (_, k) => k);

export const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

export const prod = (numbers: readonly number[]): number => numbers.reduce((a, b) => a * b, 1);

export const quote = (text: string): string => JSON.stringify(text);

export const joinText = (items: readonly unknown[], by: string): string => items.join(by);

const patternCache = new Map<string, RegExp>();

/** Whether the whole text matches. */
export function matches(pattern: string, text: string): boolean {
  const known = patternCache.get(pattern) ?? new RegExp(`^(?:${pattern})$`);
  patternCache.set(pattern, known);
  return known.test(text);
}
