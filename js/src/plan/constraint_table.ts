// What constraints.ts, which is translated from Python, is written in: a row, and Python's builtins that it uses.

import type { PlanHeader } from "./schema.ts";

/** Records of a header, and what messages call each. */
export interface RecordSet<Item> {
  readonly select: (header: PlanHeader) => readonly Item[];
  readonly label: (header: PlanHeader, number: number) => string;
}

/** The message of the first record that a constraint doesn't hold of; undefined where it holds of all. */
export type Constraint<Index> = (index: Index) => string | undefined;

/** What holds of each of these records, or what a message says, which is a function of the record's name. */
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

/** An item that an earlier row has found to be there. */
export function at<Item>(items: readonly Item[], number: number): Item {
  const item = items[number];
  if (item === undefined) throw new RangeError(`no item ${number} of ${items.length}`);
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

const patterns = new Map<string, RegExp>();

/** Whether all of the text matches. */
export function matches(pattern: string, text: string): boolean {
  const known = patterns.get(pattern) ?? new RegExp(`^(?:${pattern})$`);
  patterns.set(pattern, known);
  return known.test(text);
}
