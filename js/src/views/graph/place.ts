// Where the graph's nodes and lines go: flow steps right, resolution steps down, so that a U-Net looks like a U.
// Lengths are CSS pixels at zoom 1. dagre would need a second for 200 nodes, and knows no resolution.

import { partsOf } from "../../network/names.ts";
import type { Value } from "../../plan/schema.ts";
import {
  type Box,
  type Bracket,
  CAPTION,
  GAP,
  isSmall,
  LIST,
  NAME,
  type Placed,
  type Placement,
  right,
  SIDE,
  SIGN,
  type Way,
  WORDS,
  type Words,
  wordsHeight,
} from "./boxes.ts";
import { linesOf } from "./routes.ts";
import { type Node, type Picture, pictureOf } from "./tree.ts";
import type { Group, Tree } from "./types.ts";

const stepWidth = (node: Node): number => 14 + 6.6 * node.title.length;

const placements = new WeakMap<Tree, Map<string, Placement>>();

/** Where everything is for a choice of open groups, worked out once. */
export function placementOf(tree: Tree, open: ReadonlySet<string>): Placement {
  const known = placements.get(tree) ?? new Map<string, Placement>();
  placements.set(tree, known);
  const name = JSON.stringify([...open].sort());
  const found = known.get(name) ?? place(pictureOf(tree, open));
  known.set(name, found);
  return found;
}

/** Places nodes and lines; a picture a bit over half as tall as wide is what a notebook has room for. */
function place(picture: Picture): Placement {
  const { boxes, ways } = boxesOf(picture);
  const before = new Map(boxes.map((box) => [box, ways.filter((way) => way.to === box)]));
  const after = new Map(boxes.map((box) => [box, ways.filter((way) => way.from === box)]));
  const flow: Flow = {
    boxes,
    ways,
    before,
    after,
    returns: ways.some(({ from, to }) => to.row < from.row),
  };
  rankAndLane(flow);
  for (const box of boxes) box.words = wordsOf(box, flow);
  let best = { cost: Infinity, shift: 1 };
  for (const shift of flow.returns ? [0.5, 0.75, 1] : [1]) {
    const { width, height } = coordinates(flow, shift);
    const cost = Math.max(width, height / 0.56);
    if (cost < best.cost * 0.97) best = { cost, shift };
  }
  const size = coordinates(flow, best.shift);
  const parts = boxes.flatMap(({ node }) => (node.kind === "merge" ? [] : partsOf(node.title)));
  const readable = (Math.max(...parts.map((part) => part.length)) * NAME.letter) / NAME.width;
  return { ...drawn(flow, picture), ...size, readable };
}

interface Flow {
  /** In call order. */
  readonly boxes: readonly Box[];
  readonly ways: readonly Way[];
  readonly before: ReadonlyMap<Box, readonly Way[]>;
  readonly after: ReadonlyMap<Box, readonly Way[]>;
  /** Some way leads to a higher resolution: a U, not a stair. */
  readonly returns: boolean;
}

const sideOf = ({ nchw }: Value): number => Math.max(...nchw.slice(2));

/**
 * How often a node's picture is half as large as the largest one. What isn't a picture (tokens, attention) is
 * where it comes from, until a window or a change of resolution makes a picture again.
 */
function levelsOf({ nodes, edges }: Picture): number[] {
  const inputs = nodes.filter(({ kind }) => kind === "input");
  const rank = Math.max(...inputs.map(({ value }) => value.shape.length));
  const pictured = new Map<string, boolean>();
  for (const { id, kind, value, layers } of nodes) {
    const made = layers.some(
      ({ window, role }) => window.kernel.length > 0 || role === "resamples",
    );
    const last = layers.find(({ name }) => name === value.key);
    const places = last?.places.length ?? 0;
    // A layer table without places says nothing.
    const maps = value.shape.length === rank && (places === 0 || places === rank - 2);
    const before = edges.some(({ from, to }) => to === id && pictured.get(from));
    pictured.set(id, kind === "input" || (maps && (made || before)));
  }
  const pictures = nodes.filter(({ id }) => pictured.get(id));
  const largest = Math.max(...pictures.map(({ value }) => sideOf(value)));
  const levels = new Map<string, number>();
  for (const { id, value } of nodes) {
    const own = Math.round(Math.log2(largest / sideOf(value)));
    const source = edges.find(({ to, from }) => to === id && levels.has(from))?.from ?? "";
    const stays = !pictured.get(id) && sideOf(value) > 1;
    levels.set(id, (stays ? levels.get(source) : undefined) ?? own);
  }
  return [...levels.values()];
}

/** Steps (pools, resampling) between two nodes go on the line; all others get a box. */
function boxesOf({ nodes, edges }: Picture): { boxes: Box[]; ways: Way[] } {
  const sides = nodes.map(({ value }) => sideOf(value));
  const levels = levelsOf({ nodes, edges });
  const shown = levels.filter((_, i) => nodes[i]?.kind !== "step");
  const rows = [...new Set(shown)].sort((a, b) => a - b);
  const boxes = new Map<string, Box>();
  for (const [i, node] of nodes.entries()) {
    if (node.kind === "step") continue;
    const size = node.kind === "merge" ? SIGN : { width: SIDE, height: SIDE };
    // A classifier's largest values, with their numbers.
    const listed = node.kind === "output" && sides[i] === 1;
    const row = rows.indexOf(levels[i] ?? 0);
    boxes.set(node.id, {
      node,
      ...size,
      ...(listed && LIST),
      row,
      rank: 0,
      lane: 0,
      words: "none",
      x: 0,
      y: 0,
    });
  }
  const steps = new Map(nodes.filter(({ kind }) => kind === "step").map((node) => [node.id, node]));
  const ways: Way[] = [];
  for (const edge of edges) {
    const to = boxes.get(edge.to);
    if (to === undefined) continue;
    const on: Node[] = [];
    let source = edge.from;
    for (let step = steps.get(source); step !== undefined; step = steps.get(source)) {
      on.unshift(step);
      source = edges.find((one) => one.to === source)?.from ?? "";
    }
    const from = boxes.get(source);
    if (from !== undefined) ways.push({ edge, from, to, steps: on });
  }
  return { boxes: [...boxes.values()], ways };
}

/** A node's rank is the longest way to it; nodes of one row and rank lie in lanes, a branch in one lane. */
function rankAndLane({ boxes, before }: Flow): void {
  const taken = new Set<string>();
  const place = ({ row, rank }: Box, lane: number): string => `${row} ${rank} ${lane}`;
  for (const box of boxes) {
    const ways = before.get(box) ?? [];
    box.rank = Math.max(0, ...ways.map(({ from }) => from.rank + 1));
    const near = ways.filter(({ from }) => from.row === box.row).map(({ from }) => from.lane);
    box.lane = near.length > 0 ? Math.min(...near) : 0;
    if (taken.has(place(box, box.lane))) box.lane = 0;
    while (taken.has(place(box, box.lane))) box.lane++;
    taken.add(place(box, box.lane));
  }
}

/** Words stand outside of the U, so that skips have its inside for themselves. */
function wordsOf(box: Box, { before, after, returns }: Flow): Words {
  if (box.node.kind === "merge") return "none";
  if (!returns) return "below";
  const inRow = ({ from, to }: Way): boolean => from.row === to.row;
  const rises = before.get(box)?.some(({ from }) => from.row > box.row) ?? false;
  const starts = !(before.get(box)?.some(inRow) ?? false);
  const ends = !(after.get(box)?.some(inRow) ?? false);
  const falls = after.get(box)?.some(({ to }) => to.row > box.row) ?? false;
  if (starts && box.row > 0 && !rises && (falls || !ends)) return "left";
  if (ends && (box.row > 0 || rises)) return "right";
  return rises ? "inset" : "below";
}

/** Where the pictures of a lane begin. */
const laneTop = (lane: readonly Box[]): number => Math.min(...lane.map((box) => box.y));

/** How far a node reaches with its words. */
function extent(box: Box): { left: number; right: number; below: number } {
  const left = box.words === "left" ? CAPTION.beside : 0;
  const beside = box.words === "right" || box.words === "inset" ? CAPTION.beside : 0;
  const inset = box.words === "inset" ? beside - SIDE / 2 : beside;
  return { left, right: inset, below: wordsHeight(box) };
}

/** Gives each box its place; `shift` is by how much of its width a node stands right of the one above or below. */
function coordinates(flow: Flow, shift: number): { width: number; height: number } {
  const { boxes, before, returns } = flow;
  const lanes = new Map<string, Box>();
  for (const box of [...boxes].sort((a, b) => a.rank - b.rank)) {
    box.x = 0;
    for (const { from, edge, steps } of before.get(box) ?? []) {
      const onIt = Math.max(0, ...steps.map(stepWidth));
      const small = isSmall(box) || isSmall(from);
      const gap = Math.max(onIt > 0 ? onIt + 30 : 0, small ? GAP.small : GAP.across);
      const least = edge.skip ? GAP.skip : gap;
      if (from.row === box.row || !returns) box.x = Math.max(box.x, right(from) + least);
      else if (isSmall(box)) box.x = Math.max(box.x, from.x + from.width * shift - box.width / 2);
      else box.x = Math.max(box.x, from.x + Math.min(from.width * shift, from.width - 20));
    }
    const lane = `${box.row} ${box.lane}`;
    const last = lanes.get(lane);
    if (last !== undefined) {
      const apart = isSmall(box) || isSmall(last) ? GAP.small : GAP.across;
      box.x = Math.max(box.x, right(last) + extent(last).right + extent(box).left + apart);
    }
    lanes.set(lane, box);
  }
  tighten(flow, shift);
  const left = Math.min(...boxes.map((box) => box.x - extent(box).left));
  for (const box of boxes) box.x -= left;
  const bottom = rowsDown(flow);
  const reach = (box: Box): number =>
    box.words === "below" ? Math.max(box.width, WORDS) : box.width + extent(box).right;
  return { width: Math.max(...boxes.map((box) => box.x + reach(box))), height: bottom };
}

/** Moves what leads up to a far place nearer to it, while what it comes from is still above: the foot of a U. */
function tighten({ boxes, before, after, returns }: Flow, shift: number): void {
  if (!returns) return;
  for (const box of [...boxes].reverse()) {
    const [way, ...others] = after.get(box) ?? [];
    const alone = boxes.every((one) => one === box || one.row !== box.row);
    if (way === undefined || others.length > 0 || !alone || way.to.row >= box.row) continue;
    const wanted = way.to.x + way.to.width / 2 - box.width * Math.max(0.5, 1 - shift);
    const above = before.get(box)?.map(({ from }) => right(from) - 26) ?? [];
    box.x = Math.max(box.x, Math.min(wanted, ...above));
  }
}

/** Heights of rows and of the lanes in them; rows of a stair, where nothing stands below another, are near. */
function rowsDown({ boxes, ways, returns }: Flow): number {
  const rows = Math.max(...boxes.map((box) => box.row)) + 1;
  let bottom = 0;
  let top = 0;
  for (let row = 0; row < rows; row++) {
    const own = boxes.filter((box) => box.row === row);
    const above = boxes.filter((box) => box.row < row);
    const over = own.some((box) =>
      above.some((one) => box.x < right(one) + 12 && one.x < right(box) + 12),
    );
    const start = row === 0 ? 0 : returns || over ? bottom + GAP.rows : top + 26;
    let y = start;
    for (let lane = 0; own.some((box) => box.lane >= lane); lane++) {
      const inLane = own.filter((box) => box.lane === lane);
      if (inLane.length === 0) continue;
      y += headroom(inLane, ways);
      const small = inLane.every(isSmall);
      for (const box of inLane) box.y = y + (small ? 0 : (SIDE - box.height) / 2);
      y += (small ? 24 : SIDE) + Math.max(...inLane.map((box) => extent(box).below)) + 16;
    }
    bottom = Math.max(bottom, y - 16);
    top = start;
  }
  return bottom;
}

/** What stands over a lane's pictures: arches of skips, then the names of open groups. */
function headroom(lane: readonly Box[], ways: readonly Way[]): number {
  const arches = archesOf(lane, ways);
  const depth = Math.max(...lane.map((box) => box.node.groups.length));
  return (
    depth * GAP.bracket +
    Math.max(0, ...arches.values()) * GAP.arch +
    (arches.size > 0 ? GAP.word : 0)
  );
}

/** Lines that lead over other nodes of their lane, and how high: a longer one over those within it. */
function archesOf(lane: readonly Box[], ways: readonly Way[]): Map<Way, number> {
  const over = ways.filter(
    ({ from, to }) =>
      lane.includes(from) &&
      lane.includes(to) &&
      lane.some((box) => box.rank > from.rank && box.rank < to.rank),
  );
  const heights = new Map<Way, number>();
  for (const way of over.sort((a, b) => a.to.rank - a.from.rank - (b.to.rank - b.from.rank))) {
    const under = [...heights].filter(
      ([one]) => one.from.rank < way.to.rank && way.from.rank < one.to.rank,
    );
    heights.set(way, 1 + Math.max(0, ...under.map(([, height]) => height)));
  }
  return heights;
}

/** What is drawn, now that every box has its place. */
function drawn(
  { boxes, ways }: Flow,
  picture: Picture,
): Omit<Placement, "width" | "height" | "readable"> {
  const lanes = new Map<string, Box[]>();
  for (const box of boxes) {
    const name = `${box.row} ${box.lane}`;
    lanes.set(name, [...(lanes.get(name) ?? []), box]);
  }
  /** Height of each arch. */
  const arches = new Map<Way, number>();
  for (const lane of lanes.values()) {
    for (const [way, over] of archesOf(lane, ways)) {
      arches.set(way, laneTop(lane) - over * GAP.arch);
    }
  }
  const lines = linesOf(ways, boxes, arches);
  const onLines: Placed[] = [];
  const pictures: Placed[] = boxes.map(({ node, x, y, width, height, words }) => ({
    ...{ node, x, y, width, height, words },
  }));
  for (const line of lines) {
    for (const [i, node] of line.steps.entries()) {
      const width = stepWidth(node);
      const y = line.middle.y - 11 + (i - (line.steps.length - 1) / 2) * 24;
      const middle = line.middle.x - width / 2;
      // Down into the foot of a U and up out of it lie beside each other.
      const beside = onLines.filter(
        (one) =>
          Math.abs(one.y - y) < 24 && one.x < middle + width + 8 && middle < one.x + one.width + 8,
      );
      const x = Math.max(middle, ...beside.map((one) => one.x + one.width + 8));
      onLines.push({ node, x, y, width, height: 22, words: "none" });
    }
  }
  const first = new Map<Group, Node>();
  for (const { node } of [...boxes].reverse()) {
    for (const group of node.groups) first.set(group, node);
  }
  // Of a module's lanes in a row the uppermost one bears its bracket.
  const borne = new Set<string>();
  const brackets = [...lanes.values()]
    .sort(([a], [b]) => (a?.lane ?? 0) - (b?.lane ?? 0))
    .flatMap((lane) =>
      bracketsOf(lane, arches, first).filter(({ group }) => {
        const name = `${lane[0]?.row} ${group.id}`;
        return !borne.has(name) && borne.add(name);
      }),
    );
  const order = new Map(picture.nodes.map((node, i) => [node.id, i]));
  const nodes = [...pictures, ...onLines];
  nodes.sort((a, b) => (order.get(a.node.id) ?? 0) - (order.get(b.node.id) ?? 0));
  return {
    nodes,
    lines,
    brackets,
  };
}

function bracketsOf(
  lane: readonly Box[],
  arches: ReadonlyMap<Way, number>,
  first: ReadonlyMap<Group, Node>,
): Bracket[] {
  const over = [...arches].flatMap(([way, y]) => (lane.includes(way.from) ? y - GAP.word : []));
  const top = Math.min(laneTop(lane), ...over);
  const depth = Math.max(...lane.map((box) => box.node.groups.length));
  const found = new Map<Group, Bracket>();
  for (const { node, x, width } of [...lane].sort((a, b) => a.x - b.x)) {
    for (const [i, group] of node.groups.entries()) {
      const start = found.get(group)?.x ?? x;
      const y = top - (depth - i) * GAP.bracket;
      const named = found.get(group)?.named || node === first.get(group);
      found.set(group, { group, x: start, y, width: x + width - start, named });
    }
  }
  return [...found.values()];
}
