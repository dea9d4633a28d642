// Repeated blocks: sibling modules of one structure, one behind the other, are one node of which one block can be open.

import { within } from "../../network/names.ts";
import type { Fold, Group, Item, Tree } from "./types.ts";

/** From so many blocks on. */
const LEAST = 3;

/** All folds of a network; a module that is in none is for itself. */
export function foldsOf(items: readonly Item[], groups: readonly Group[]): Map<string, Fold> {
  const ranges = new Map(groups.map((group) => [group.id, rangeOf(items, group)]));
  const folds = new Map<string, Fold>();
  let run: Group[] = [];
  const close = (): void => {
    if (run.length >= LEAST) for (const block of run) folds.set(block.id, run);
    run = [];
  };
  const siblings = new Map<Group | undefined, Group[]>();
  for (const group of groups) {
    const parent = parentOf(items, ranges.get(group.id), group);
    siblings.set(parent, [...(siblings.get(parent) ?? []), group]);
  }
  for (const those of siblings.values()) {
    for (const group of those) {
      const last = run.at(-1);
      if (last && !repeats(items, ranges.get(last.id), ranges.get(group.id), last, group)) close();
      run.push(group);
    }
    close();
  }
  return folds;
}

/** Where a group's items are. */
type Range = readonly [first: number, end: number];

function rangeOf(items: readonly Item[], group: Group): Range {
  const first = items.findIndex((item) => item.groups.includes(group));
  return [first, items.findLastIndex((item) => item.groups.includes(group)) + 1];
}

/** The group around a group; undefined for the network's own. */
function parentOf(items: readonly Item[], range: Range | undefined, group: Group) {
  const around = items[range?.[0] ?? 0]?.groups ?? [];
  return around[around.indexOf(group) - 1];
}

/** Whether a block is called like the one before it but for its number, reads it, and has the same layers. */
function repeats(
  items: readonly Item[],
  before: Range | undefined,
  range: Range | undefined,
  last: Group,
  group: Group,
): boolean {
  if (before === undefined || range === undefined || before[1] !== range[0]) return false;
  const title = (one: Group): string => one.title.replace(/\d+/g, "#");
  const reads = items
    .slice(...range)
    .some(({ links }) => links.some(({ from }) => from >= before[0] && from < before[1]));
  return (
    title(last) === title(group) &&
    reads &&
    structureOf(items.slice(...before), last) === structureOf(items.slice(...range), group)
  );
}

/** Names, kinds and windows of a block's layers, and the size of its maps; channels may differ. */
function structureOf(items: readonly Item[], { module }: Group): string {
  const layers = items.flatMap(({ stage }) => stage?.layers ?? []);
  // What only the network's code calls has numbers for names; modules have their own.
  const named = layers.filter((layer) => layer.module !== "");
  const words = (named.length > 0 ? named : layers).map((layer) => {
    const name = within(layer.name, module);
    const { kernel, strides, dilations } = layer.window;
    const called = named.length > 0 ? name : name.replace(/\d+/g, "#");
    return [called, layer.module || layer.operator, kernel, strides, dilations];
  });
  return JSON.stringify([words, items.at(-1)?.value.nchw.slice(2)]);
}

/** The closed blocks of a fold that stand beside each other, by block: of open ones there is one at most. */
export function segmentsOf({ folds }: Tree, open: ReadonlySet<string>): Map<string, Fold> {
  const segments = new Map<string, Fold>();
  for (const fold of new Set(folds.values())) {
    let closed: Group[] = [];
    for (const block of fold) {
      if (open.has(block.id)) closed = [];
      else {
        closed.push(block);
        segments.set(block.id, closed);
      }
    }
  }
  return segments;
}

/** "denselayer2–6 × 5"; a block alone is called by its name in the module `around`. */
export function segmentTitle(segment: Fold, around: string): string {
  const [first = "", last = ""] = [segment[0], segment.at(-1)].map(
    (group) => group && within(group.module, around),
  );
  if (segment.length < 2) return first;
  let same = 0;
  while (same < first.length && first[same] === last[same]) same++;
  while (/\d/.test(first[same - 1] ?? "")) same--;
  return `${first}–${last.slice(same)} × ${segment.length}`;
}

/** These groups open, and one more; of repeated blocks it takes the open one's place. */
export function withOpen(
  { folds }: Tree,
  open: ReadonlySet<string>,
  id: string,
): ReadonlySet<string> {
  const others = new Set(folds.get(id)?.map((block) => block.id));
  return new Set([...[...open].filter((one) => !others.has(one)), id]);
}

/** All modules, and of repeated blocks the first. */
export function allOpen(tree: Tree): ReadonlySet<string> {
  const { folds, groups } = tree;
  return new Set(
    groups.flatMap(({ id }) => {
      const fold = folds.get(id);
      return fold === undefined || fold[0]?.id === id ? id : [];
    }),
  );
}
