// Repeated blocks: consecutive sibling modules of the same structure share one node, and at most one of them can be
// open.

import { relativeName } from "../../network/layer_names.ts";
import type { ModuleGroup, ModuleTree, RepeatedBlocks, TreeItem } from "./module_tree.ts";

/** The least number of blocks. */
const MIN_REPEATS = 3;

/** All runs of repeated blocks in a network, by block; other modules are not in the map. */
export function findRepeatedBlocks(
  items: readonly TreeItem[],
  groups: readonly ModuleGroup[],
): Map<string, RepeatedBlocks> {
  const ranges = new Map(groups.map((group) => [group.id, itemRange(items, group)]));
  const folds = new Map<string, RepeatedBlocks>();
  let run: ModuleGroup[] = [];
  const close = (): void => {
    if (run.length >= MIN_REPEATS) for (const block of run) folds.set(block.id, run);
    run = [];
  };
  const siblings = new Map<ModuleGroup | undefined, ModuleGroup[]>();
  for (const group of groups) {
    const parent = parentOf(items, ranges.get(group.id), group);
    siblings.set(parent, [...(siblings.get(parent) ?? []), group]);
  }
  for (const those of siblings.values()) {
    for (const group of those) {
      const last = run.at(-1);
      if (last && !isRepeat(items, ranges.get(last.id), ranges.get(group.id), last, group)) close();
      run.push(group);
    }
    close();
  }
  return folds;
}

/** The range of a group's items. */
type ItemRange = readonly [first: number, end: number];

function itemRange(items: readonly TreeItem[], group: ModuleGroup): ItemRange {
  const first = items.findIndex((item) => item.groups.includes(group));
  return [first, items.findLastIndex((item) => item.groups.includes(group)) + 1];
}

/** The group around a group; undefined at the top level. */
function parentOf(items: readonly TreeItem[], range: ItemRange | undefined, group: ModuleGroup) {
  const around = items[range?.[0] ?? 0]?.groups ?? [];
  return around[around.indexOf(group) - 1];
}

/**
 * Whether a block has the same name as the one before it except for the number, reads its output, and has the same
 * layers.
 */
function isRepeat(
  items: readonly TreeItem[],
  previousRange: ItemRange | undefined,
  range: ItemRange | undefined,
  previousGroup: ModuleGroup,
  group: ModuleGroup,
): boolean {
  if (previousRange === undefined || range === undefined || previousRange[1] !== range[0])
    return false;
  const title = (one: ModuleGroup): string => one.title.replace(/\d+/g, "#");
  const reads = items
    .slice(...range)
    .some(({ links }) =>
      links.some(({ from }) => from >= previousRange[0] && from < previousRange[1]),
    );
  return (
    title(previousGroup) === title(group) &&
    reads &&
    blockSignature(items.slice(...previousRange), previousGroup) ===
      blockSignature(items.slice(...range), group)
  );
}

/** Names, types and windows of a block's layers, and the size of its maps; channel counts may differ. */
function blockSignature(items: readonly TreeItem[], { module }: ModuleGroup): string {
  const layers = items.flatMap(({ stage }) => stage?.layers ?? []);
  // Operators called directly in the network's code have numbered names; modules have their own names.
  const named = layers.filter((layer) => layer.module !== "");
  const words = (named.length > 0 ? named : layers).map((layer) => {
    const name = relativeName(layer.name, module);
    const { kernel, strides, dilations } = layer.window;
    const called = named.length > 0 ? name : name.replace(/\d+/g, "#");
    return [called, layer.module || layer.operator, kernel, strides, dilations];
  });
  return JSON.stringify([words, items.at(-1)?.value.nchw.slice(2)]);
}

/** The adjacent closed blocks of each run, by block; at most one block of a run is open. */
export function closedSegments(
  { repeatedBlocks }: ModuleTree,
  openGroups: ReadonlySet<string>,
): Map<string, RepeatedBlocks> {
  const segments = new Map<string, RepeatedBlocks>();
  for (const blockRun of new Set(repeatedBlocks.values())) {
    let closed: ModuleGroup[] = [];
    for (const block of blockRun) {
      if (openGroups.has(block.id)) closed = [];
      else {
        closed.push(block);
        segments.set(block.id, closed);
      }
    }
  }
  return segments;
}

/** "denselayer2–6 × 5"; a single block has its name relative to the module `enclosingModule`. */
export function segmentTitle(segment: RepeatedBlocks, enclosingModule: string): string {
  const [first = "", last = ""] = [segment[0], segment.at(-1)].map(
    (group) => group && relativeName(group.module, enclosingModule),
  );
  if (segment.length < 2) return first;
  let same = 0;
  while (same < first.length && first[same] === last[same]) same++;
  while (/\d/.test(first[same - 1] ?? "")) same--;
  return `${first}–${last.slice(same)} × ${segment.length}`;
}

/** The open groups plus one; an open block of the same run is closed. */
export function openGroup(
  { repeatedBlocks }: ModuleTree,
  openGroups: ReadonlySet<string>,
  id: string,
): ReadonlySet<string> {
  const others = new Set(repeatedBlocks.get(id)?.map((block) => block.id));
  return new Set([...[...openGroups].filter((one) => !others.has(one)), id]);
}

/** Open all modules, and the first block of each run. */
export function openAllGroups(tree: ModuleTree): ReadonlySet<string> {
  const { repeatedBlocks, groups } = tree;
  return new Set(
    groups.flatMap(({ id }) => {
      const blockRun = repeatedBlocks.get(id);
      return blockRun === undefined || blockRun[0]?.id === id ? id : [];
    }),
  );
}
