// Arrow-key navigation: forward and back along the edges, and to the nodes above or below.

import type { GraphNode } from "./module_graph.ts";
import type { GraphLayout, PlacedNode } from "./node_boxes.ts";

/** The node that a key leads to; null if there is none. */
export function neighbour(
  { nodes, lines }: GraphLayout,
  from: PlacedNode,
  key: string,
): PlacedNode | null {
  const next = new Map<GraphNode, GraphNode[]>();
  const before = new Map<GraphNode, GraphNode[]>();
  const add = (map: Map<GraphNode, GraphNode[]>, at: GraphNode, node: GraphNode): void => {
    map.set(at, [...(map.get(at) ?? []), node]);
  };
  // The main path first, skip connections last.
  for (const line of [...lines].sort(
    (a, b) => a.edge.skipOperator.length - b.edge.skipOperator.length,
  )) {
    const way = [line.from, ...line.steps, line.to];
    for (const [i, node] of way.slice(1).entries()) {
      const last = way[i];
      if (last === undefined) continue;
      add(next, last, node);
      add(before, node, last);
    }
  }
  const of = (map: Map<GraphNode, GraphNode[]>, node: GraphNode): GraphNode[] =>
    map.get(node) ?? [];
  const placed = (node: GraphNode | undefined): PlacedNode | null =>
    nodes.find((one) => one.node === node) ?? null;
  if (key === "ArrowRight") return placed(of(next, from.node)[0]);
  if (key === "ArrowLeft") return placed(of(before, from.node)[0]);
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const siblings = [
    ...of(before, from.node).flatMap((node) => of(next, node)),
    ...of(next, from.node).flatMap((node) => of(before, node)),
  ];
  const near = [...of(next, from.node), ...of(before, from.node), ...siblings];
  const down = ({ y, height }: PlacedNode): number =>
    (y + height / 2 - from.y - from.height / 2) * (key === "ArrowDown" ? 1 : -1);
  const found = near.flatMap((node) => placed(node) ?? []).filter((one) => down(one) > 8);
  return found.sort((a, b) => down(a) - down(b))[0] ?? null;
}
