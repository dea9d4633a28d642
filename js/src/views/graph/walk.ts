// Which node an arrow key leads to: along the edges, forth and back, and to what stands above or below.
import type { Placed, Placement } from "./boxes.ts";
import type { Node } from "./tree.ts";

/** The next node for a key; null where there is none. */
export function neighbour({ nodes, lines }: Placement, from: Placed, key: string): Placed | null {
  const next = new Map<Node, Node[]>();
  const before = new Map<Node, Node[]>();
  const add = (map: Map<Node, Node[]>, at: Node, node: Node): void => {
    map.set(at, [...(map.get(at) ?? []), node]);
  };
  // The way of the network first, skips behind it.
  for (const line of [...lines].sort((a, b) => a.edge.skip.length - b.edge.skip.length)) {
    const way = [line.from, ...line.steps, line.to];
    for (const [i, node] of way.slice(1).entries()) {
      const last = way[i];
      if (last === undefined) continue;
      add(next, last, node);
      add(before, node, last);
    }
  }
  const of = (map: Map<Node, Node[]>, node: Node): Node[] => map.get(node) ?? [];
  const placed = (node: Node | undefined): Placed | null =>
    nodes.find((one) => one.node === node) ?? null;
  if (key === "ArrowRight") return placed(of(next, from.node)[0]);
  if (key === "ArrowLeft") return placed(of(before, from.node)[0]);
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const siblings = [
    ...of(before, from.node).flatMap((node) => of(next, node)),
    ...of(next, from.node).flatMap((node) => of(before, node)),
  ];
  const near = [...of(next, from.node), ...of(before, from.node), ...siblings];
  const down = ({ y, height }: Placed): number =>
    (y + height / 2 - from.y - from.height / 2) * (key === "ArrowDown" ? 1 : -1);
  const found = near.flatMap((node) => placed(node) ?? []).filter((one) => down(one) > 8);
  return found.sort((a, b) => down(a) - down(b))[0] ?? null;
}
