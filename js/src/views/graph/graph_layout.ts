// Layout of the graph's nodes and edges: data flow goes right, lower resolution goes down, so that a U-Net looks like a
// U. Lengths are CSS pixels at zoom 1. dagre would take a second for 200 nodes, and does not know resolutions.

import { nameParts } from "../../network/layer_names.ts";
import type { Value } from "../../plan/schema.ts";
import { edgeLines } from "./edge_paths.ts";
import { buildGraph, type GraphNode, type NodeGraph } from "./module_graph.ts";
import type { ModuleGroup, ModuleTree } from "./module_tree.ts";
import {
  CAPTION_SIZE,
  type CaptionSide,
  captionHeight,
  type EdgeRoute,
  GAPS,
  type GraphLayout,
  type GroupBracket,
  isMerge,
  LISTED_NODE_SIZE,
  MAX_CAPTION_WIDTH,
  NODE_NAME_METRICS,
  NODE_SIDE,
  type NodeBox,
  OPERATOR_SIZE,
  type PlacedNode,
  rightEdge,
} from "./node_boxes.ts";

const stepWidth = (node: GraphNode): number => 14 + 6.6 * node.title.length;

const layoutCache = new WeakMap<ModuleTree, Map<string, GraphLayout>>();

/** The layout for a set of open groups, cached. */
export function graphLayout(tree: ModuleTree, openGroups: ReadonlySet<string>): GraphLayout {
  const known = layoutCache.get(tree) ?? new Map<string, GraphLayout>();
  layoutCache.set(tree, known);
  const name = JSON.stringify([...openGroups].sort());
  const found = known.get(name) ?? computeLayout(buildGraph(tree, openGroups));
  known.set(name, found);
  return found;
}

/** Place nodes and edges; the target is a graph a bit over half as tall as wide, which suits a notebook. */
function computeLayout(graph: NodeGraph): GraphLayout {
  const { boxes, routes } = createBoxes(graph);
  const incoming = new Map(boxes.map((box) => [box, routes.filter((way) => way.to === box)]));
  const outgoing = new Map(boxes.map((box) => [box, routes.filter((way) => way.from === box)]));
  const flow: FlowGraph = {
    boxes,
    routes,
    incoming,
    outgoing,
    isUShaped: routes.some(({ from, to }) => to.row < from.row),
  };
  assignRanks(flow);
  for (const box of boxes) box.captionSide = captionSideOf(box, flow);
  let best = { cost: Infinity, shift: 1 };
  for (const shift of flow.isUShaped ? [0.5, 0.75, 1] : [1]) {
    const { width, height } = assignCoordinates(flow, shift);
    const cost = Math.max(width, height / 0.56);
    if (cost < best.cost * 0.97) best = { cost, shift };
  }
  const size = assignCoordinates(flow, best.shift);
  const parts = boxes.flatMap(({ node }) => (node.kind === "merge" ? [] : nameParts(node.title)));
  const minReadableZoom =
    (Math.max(...parts.map((part) => part.length)) * NODE_NAME_METRICS.letter) /
    NODE_NAME_METRICS.width;
  return { ...createLayout(flow, graph), ...size, minReadableZoom };
}

interface FlowGraph {
  /** In call order. */
  readonly boxes: readonly NodeBox[];
  readonly routes: readonly EdgeRoute[];
  readonly incoming: ReadonlyMap<NodeBox, readonly EdgeRoute[]>;
  readonly outgoing: ReadonlyMap<NodeBox, readonly EdgeRoute[]>;
  /** Some edge leads to a higher resolution: the graph is a U rather than a staircase. */
  readonly isUShaped: boolean;
}

const longestSide = ({ nchw }: Value): number => Math.max(...nchw.slice(2));

/**
 * For each node, how often the largest picture's resolution is halved. A value that is not a picture (tokens,
 * attention) has the level of its source, until a window or a change of resolution yields a picture again.
 */
function resolutionLevels({ nodes, edges }: NodeGraph): number[] {
  const inputs = nodes.filter(({ kind }) => kind === "input");
  const rank = Math.max(...inputs.map(({ value }) => value.shape.length));
  const pictured = new Map<string, boolean>();
  for (const { id, kind, value, layers } of nodes) {
    const made = layers.some(
      ({ window, role }) => window.kernel.length > 0 || role === "resamples",
    );
    const last = layers.find(({ name }) => name === value.key);
    const places = last?.position_axes.length ?? 0;
    // A layer without position axes in the layer table does not decide.
    const maps = value.shape.length === rank && (places === 0 || places === rank - 2);
    const before = edges.some(({ from, to }) => to === id && pictured.get(from));
    pictured.set(id, kind === "input" || (maps && (made || before)));
  }
  const pictures = nodes.filter(({ id }) => pictured.get(id));
  const largest = Math.max(...pictures.map(({ value }) => longestSide(value)));
  const levels = new Map<string, number>();
  for (const { id, value } of nodes) {
    const own = Math.round(Math.log2(largest / longestSide(value)));
    const source = edges.find(({ to, from }) => to === id && levels.has(from))?.from ?? "";
    const stays = !pictured.get(id) && longestSide(value) > 1;
    levels.set(id, (stays ? levels.get(source) : undefined) ?? own);
  }
  return [...levels.values()];
}

/** Steps (pools, resampling) between two nodes are drawn on the edge; all other nodes get a box. */
function createBoxes({ nodes, edges }: NodeGraph): { boxes: NodeBox[]; routes: EdgeRoute[] } {
  const sides = nodes.map(({ value }) => longestSide(value));
  const levels = resolutionLevels({ nodes, edges });
  const shown = levels.filter((_, i) => nodes[i]?.kind !== "step");
  const rows = [...new Set(shown)].sort((a, b) => a - b);
  const boxes = new Map<string, NodeBox>();
  for (const [i, node] of nodes.entries()) {
    if (node.kind === "step") continue;
    const size = node.kind === "merge" ? OPERATOR_SIZE : { width: NODE_SIDE, height: NODE_SIDE };
    // A classifier's largest values are listed with their numbers.
    const listed = node.kind === "output" && sides[i] === 1;
    const row = rows.indexOf(levels[i] ?? 0);
    boxes.set(node.id, {
      node,
      ...size,
      ...(listed && LISTED_NODE_SIZE),
      row,
      rank: 0,
      lane: 0,
      captionSide: "none",
      x: 0,
      y: 0,
    });
  }
  const steps = new Map(nodes.filter(({ kind }) => kind === "step").map((node) => [node.id, node]));
  const ways: EdgeRoute[] = [];
  for (const edge of edges) {
    const to = boxes.get(edge.to);
    if (to === undefined) continue;
    const on: GraphNode[] = [];
    let source = edge.from;
    for (let step = steps.get(source); step !== undefined; step = steps.get(source)) {
      on.unshift(step);
      source = edges.find((one) => one.to === source)?.from ?? "";
    }
    const from = boxes.get(source);
    if (from !== undefined) ways.push({ edge, from, to, steps: on });
  }
  return { boxes: [...boxes.values()], routes: ways };
}

/**
 * Assign ranks and lanes: a node's rank is the length of the longest path to it; nodes of the same row and rank are in
 * different lanes, and a branch stays in one lane.
 */
function assignRanks({ boxes, incoming }: FlowGraph): void {
  const taken = new Set<string>();
  const place = ({ row, rank }: NodeBox, lane: number): string => `${row} ${rank} ${lane}`;
  for (const box of boxes) {
    const ways = incoming.get(box) ?? [];
    box.rank = Math.max(0, ...ways.map(({ from }) => from.rank + 1));
    const near = ways.filter(({ from }) => from.row === box.row).map(({ from }) => from.lane);
    box.lane = near.length > 0 ? Math.min(...near) : 0;
    if (taken.has(place(box, box.lane))) box.lane = 0;
    while (taken.has(place(box, box.lane))) box.lane++;
    taken.add(place(box, box.lane));
  }
}

/** Captions are outside of the U, so that skip connections have its inside. */
function captionSideOf(box: NodeBox, { incoming, outgoing, isUShaped }: FlowGraph): CaptionSide {
  if (box.node.kind === "merge") return "none";
  if (!isUShaped) return "below";
  const inRow = ({ from, to }: EdgeRoute): boolean => from.row === to.row;
  const rises = incoming.get(box)?.some(({ from }) => from.row > box.row) ?? false;
  const starts = !(incoming.get(box)?.some(inRow) ?? false);
  const ends = !(outgoing.get(box)?.some(inRow) ?? false);
  const falls = outgoing.get(box)?.some(({ to }) => to.row > box.row) ?? false;
  if (starts && box.row > 0 && !rises && (falls || !ends)) return "left";
  if (ends && (box.row > 0 || rises)) return "right";
  return rises ? "inset" : "below";
}

/** The top of a lane's pictures. */
const laneTop = (lane: readonly NodeBox[]): number => Math.min(...lane.map((box) => box.y));

/** How far a node with its caption extends. */
function captionExtent(box: NodeBox): { left: number; right: number; below: number } {
  const left = box.captionSide === "left" ? CAPTION_SIZE.beside : 0;
  const beside =
    box.captionSide === "right" || box.captionSide === "inset" ? CAPTION_SIZE.beside : 0;
  const inset = box.captionSide === "inset" ? beside - NODE_SIDE / 2 : beside;
  return { left, right: inset, below: captionHeight(box) };
}

/**
 * Assign each box its coordinates; `shiftFraction` is the fraction of its width by which a node is right of the one
 * above or below.
 */
function assignCoordinates(
  flow: FlowGraph,
  shiftFraction: number,
): { width: number; height: number } {
  const { boxes, incoming, isUShaped } = flow;
  const lanes = new Map<string, NodeBox>();
  for (const box of [...boxes].sort((a, b) => a.rank - b.rank)) {
    box.x = 0;
    for (const { from, edge, steps } of incoming.get(box) ?? []) {
      const onIt = Math.max(0, ...steps.map(stepWidth));
      const small = isMerge(box) || isMerge(from);
      const gap = Math.max(onIt > 0 ? onIt + 30 : 0, small ? GAPS.small : GAPS.across);
      const least = edge.skipOperator ? GAPS.skip : gap;
      if (from.row === box.row || !isUShaped) box.x = Math.max(box.x, rightEdge(from) + least);
      else if (isMerge(box))
        box.x = Math.max(box.x, from.x + from.width * shiftFraction - box.width / 2);
      else box.x = Math.max(box.x, from.x + Math.min(from.width * shiftFraction, from.width - 20));
    }
    const lane = `${box.row} ${box.lane}`;
    const last = lanes.get(lane);
    if (last !== undefined) {
      const apart = isMerge(box) || isMerge(last) ? GAPS.small : GAPS.across;
      box.x = Math.max(
        box.x,
        rightEdge(last) + captionExtent(last).right + captionExtent(box).left + apart,
      );
    }
    lanes.set(lane, box);
  }
  compactUBottom(flow, shiftFraction);
  const left = Math.min(...boxes.map((box) => box.x - captionExtent(box).left));
  for (const box of boxes) box.x -= left;
  const bottom = assignRows(flow);
  const reach = (box: NodeBox): number =>
    box.captionSide === "below"
      ? Math.max(box.width, MAX_CAPTION_WIDTH)
      : box.width + captionExtent(box).right;
  return { width: Math.max(...boxes.map((box) => box.x + reach(box))), height: bottom };
}

/**
 * Move a node whose only consumer is far right closer to that consumer, while its source stays above it: the foot of a
 * U.
 */
function compactUBottom(
  { boxes, incoming, outgoing, isUShaped }: FlowGraph,
  shiftFraction: number,
): void {
  if (!isUShaped) return;
  for (const box of [...boxes].reverse()) {
    const [way, ...others] = outgoing.get(box) ?? [];
    const alone = boxes.every((one) => one === box || one.row !== box.row);
    if (way === undefined || others.length > 0 || !alone || way.to.row >= box.row) continue;
    const wanted = way.to.x + way.to.width / 2 - box.width * Math.max(0.5, 1 - shiftFraction);
    const above = incoming.get(box)?.map(({ from }) => rightEdge(from) - 26) ?? [];
    box.x = Math.max(box.x, Math.min(wanted, ...above));
  }
}

/**
 * Assign the heights of rows and of the lanes in them; rows of a staircase, where no node is below another, are close
 * together.
 */
function assignRows({ boxes, routes, isUShaped }: FlowGraph): number {
  const rows = Math.max(...boxes.map((box) => box.row)) + 1;
  let bottom = 0;
  let top = 0;
  for (let row = 0; row < rows; row++) {
    const own = boxes.filter((box) => box.row === row);
    const above = boxes.filter((box) => box.row < row);
    const over = own.some((box) =>
      above.some((one) => box.x < rightEdge(one) + 12 && one.x < rightEdge(box) + 12),
    );
    const start = row === 0 ? 0 : isUShaped || over ? bottom + GAPS.rows : top + 26;
    let y = start;
    for (let lane = 0; own.some((box) => box.lane >= lane); lane++) {
      const inLane = own.filter((box) => box.lane === lane);
      if (inLane.length === 0) continue;
      y += headroom(inLane, routes);
      const small = inLane.every(isMerge);
      for (const box of inLane) box.y = y + (small ? 0 : (NODE_SIDE - box.height) / 2);
      y +=
        (small ? 24 : NODE_SIDE) + Math.max(...inLane.map((box) => captionExtent(box).below)) + 16;
    }
    bottom = Math.max(bottom, y - 16);
    top = start;
  }
  return bottom;
}

/** The height above a lane's pictures: the arches of skip connections, then the names of open groups. */
function headroom(lane: readonly NodeBox[], routes: readonly EdgeRoute[]): number {
  const arches = skipArches(lane, routes);
  const depth = Math.max(...lane.map((box) => box.node.groups.length));
  return (
    depth * GAPS.bracket +
    Math.max(0, ...arches.values()) * GAPS.arch +
    (arches.size > 0 ? GAPS.word : 0)
  );
}

/**
 * The routes that pass over other nodes of their lane, and their arch levels: a longer route is above the ones within
 * it.
 */
function skipArches(
  lane: readonly NodeBox[],
  routes: readonly EdgeRoute[],
): Map<EdgeRoute, number> {
  const over = routes.filter(
    ({ from, to }) =>
      lane.includes(from) &&
      lane.includes(to) &&
      lane.some((box) => box.rank > from.rank && box.rank < to.rank),
  );
  const heights = new Map<EdgeRoute, number>();
  for (const way of over.sort((a, b) => a.to.rank - a.from.rank - (b.to.rank - b.from.rank))) {
    const under = [...heights].filter(
      ([one]) => one.from.rank < way.to.rank && way.from.rank < one.to.rank,
    );
    heights.set(way, 1 + Math.max(0, ...under.map(([, height]) => height)));
  }
  return heights;
}

/** The nodes, lines and brackets, once every box has its coordinates. */
function createLayout(
  { boxes, routes }: FlowGraph,
  graph: NodeGraph,
): Omit<GraphLayout, "width" | "height" | "minReadableZoom"> {
  const lanes = new Map<string, NodeBox[]>();
  for (const box of boxes) {
    const name = `${box.row} ${box.lane}`;
    lanes.set(name, [...(lanes.get(name) ?? []), box]);
  }
  /** The y of each arch. */
  const arches = new Map<EdgeRoute, number>();
  for (const lane of lanes.values()) {
    for (const [way, over] of skipArches(lane, routes)) {
      arches.set(way, laneTop(lane) - over * GAPS.arch);
    }
  }
  const lines = edgeLines(routes, boxes, arches);
  const onLines: PlacedNode[] = [];
  const pictures: PlacedNode[] = boxes.map(({ node, x, y, width, height, captionSide }) => ({
    ...{ node, x, y, width, height, captionSide },
  }));
  for (const line of lines) {
    for (const [i, node] of line.steps.entries()) {
      const width = stepWidth(node);
      const y = line.labelPosition.y - 11 + (i - (line.steps.length - 1) / 2) * 24;
      const middle = line.labelPosition.x - width / 2;
      // The steps on the edges down into the foot of a U and up out of it are placed side by side.
      const beside = onLines.filter(
        (one) =>
          Math.abs(one.y - y) < 24 && one.x < middle + width + 8 && middle < one.x + one.width + 8,
      );
      const x = Math.max(middle, ...beside.map((one) => one.x + one.width + 8));
      onLines.push({ node, x, y, width, height: 22, captionSide: "none" });
    }
  }
  const first = new Map<ModuleGroup, GraphNode>();
  for (const { node } of [...boxes].reverse()) {
    for (const group of node.groups) first.set(group, node);
  }
  // If a module has several lanes in a row, the top lane has its bracket.
  const borne = new Set<string>();
  const brackets = [...lanes.values()]
    .sort(([a], [b]) => (a?.lane ?? 0) - (b?.lane ?? 0))
    .flatMap((lane) =>
      groupBrackets(lane, arches, first).filter(({ group }) => {
        const name = `${lane[0]?.row} ${group.id}`;
        return !borne.has(name) && borne.add(name);
      }),
    );
  const order = new Map(graph.nodes.map((node, i) => [node.id, i]));
  const nodes = [...pictures, ...onLines];
  nodes.sort((a, b) => (order.get(a.node.id) ?? 0) - (order.get(b.node.id) ?? 0));
  return {
    nodes,
    lines,
    brackets,
  };
}

function groupBrackets(
  lane: readonly NodeBox[],
  archHeights: ReadonlyMap<EdgeRoute, number>,
  firstNodes: ReadonlyMap<ModuleGroup, GraphNode>,
): GroupBracket[] {
  const over = [...archHeights].flatMap(([way, y]) =>
    lane.includes(way.from) ? y - GAPS.word : [],
  );
  const top = Math.min(laneTop(lane), ...over);
  const depth = Math.max(...lane.map((box) => box.node.groups.length));
  const found = new Map<ModuleGroup, GroupBracket>();
  for (const { node, x, width } of [...lane].sort((a, b) => a.x - b.x)) {
    for (const [i, group] of node.groups.entries()) {
      const start = found.get(group)?.x ?? x;
      const y = top - (depth - i) * GAPS.bracket;
      const hasName = found.get(group)?.hasName || node === firstNodes.get(group);
      found.set(group, { group, x: start, y, width: x + width - start, hasName });
    }
  }
  return [...found.values()];
}
