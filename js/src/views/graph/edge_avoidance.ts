// Routes an edge around the nodes that it would cross: along the gaps between them, with few corners.
import { captionHeight, isMerge, type NodeBox, rightEdge, stackOffset } from "./node_boxes.ts";

export type Point = readonly [number, number];
export type Direction = "right" | "down" | "up";

/** The obstacle that a line avoids: a node with the stacked edge of a closed module. */
interface Rectangle {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** One end of a line: the line is straight between `stub` and `point`. */
interface Port {
  readonly point: Point;
  readonly stub: Point;
  readonly towards: Direction;
}

/** CSS pixels between a node and a line that is routed around it. */
const CLEARANCE = 12;
const CORNER_COST = 40;
/** Extra cost per length of a line that overlaps another one, and of one that crosses captions. */
const OVERLAP_COST = 3;
const CAPTION_COST = 4;
/** Nodes farther away than this are ignored: a grid over all nodes of a large network is slow. */
const SEARCH_MARGIN = 260;

const nodeRectangle = (box: NodeBox, margin: number): Rectangle => ({
  left: box.x - margin,
  top: box.y - stackOffset(box) - margin,
  right: rightEdge(box) + stackOffset(box) + margin,
  bottom: box.y + box.height + margin,
});

/** The rectangle of a node's caption, if the caption is below the node. */
function captionRectangle(box: NodeBox): Rectangle | null {
  if (box.captionSide !== "below" && box.captionSide !== "inset") return null;
  const bottom = box.y + box.height;
  return { left: box.x, top: bottom, right: rightEdge(box), bottom: bottom + captionHeight(box) };
}

/** Whether a straight line between two points, in any direction, intersects a rectangle. */
function intersects([x1, y1]: Point, [x2, y2]: Point, obstacle: Rectangle): boolean {
  let [first, last] = [0, 1];
  for (const [from, by, low, high] of [
    [x1, x2 - x1, obstacle.left, obstacle.right],
    [y1, y2 - y1, obstacle.top, obstacle.bottom],
  ] as const) {
    if (by === 0) {
      if (from <= low || from >= high) return false;
      continue;
    }
    const [a, b] = [(low - from) / by, (high - from) / by];
    first = Math.max(first, Math.min(a, b));
    last = Math.min(last, Math.max(a, b));
  }
  return first < last;
}

/** Whether a polyline crosses a node other than its own two. */
export function crossesNodes(
  points: readonly Point[],
  from: NodeBox,
  to: NodeBox,
  boxes: readonly NodeBox[],
): boolean {
  return boxes.some((box) => {
    if (box === from || box === to) return false;
    const one = nodeRectangle(box, 1);
    return points.some((point, k) => k > 0 && intersects(points[k - 1] as Point, point, one));
  });
}

function startPorts(box: NodeBox): Port[] {
  const x = rightEdge(box) + stackOffset(box);
  const y = box.y + box.height / 2;
  const above = box.y - stackOffset(box);
  const corner = rightEdge(box) - Math.min(10, box.width / 4);
  const ports: Port[] = [
    { point: [x + 2, y], stub: [x + 8, y], towards: "right" },
    { point: [corner, above - 2], stub: [corner, above - CLEARANCE], towards: "up" },
  ];
  if (captionRectangle(box) !== null) return ports;
  const bottom = box.y + box.height;
  return [
    ...ports,
    { point: [corner, bottom + 2], stub: [corner, bottom + CLEARANCE], towards: "down" },
  ];
}

function endPorts(box: NodeBox): Port[] {
  const y = box.y + box.height / 2;
  const x = box.x + box.width / 2;
  const above = box.y - stackOffset(box) - 3;
  const below = box.y + box.height + 3;
  const ports: Port[] = [
    { point: [box.x - 3, y], stub: [box.x - CLEARANCE, y], towards: "right" },
    { point: [x, above], stub: [x, above - CLEARANCE], towards: "down" },
  ];
  const isFree = isMerge(box) || box.captionSide === "right" || box.captionSide === "left";
  return isFree
    ? [...ports, { point: [x, below], stub: [x, below + CLEARANCE], towards: "up" }]
    : ports;
}

interface SearchState {
  readonly i: number;
  readonly j: number;
  /** The direction of travel: along x rather than y. */
  readonly isHorizontal: boolean;
  readonly cost: number;
  /** Lower bound of the whole route's cost. */
  readonly estimate: number;
  readonly previous: SearchState | null;
  readonly start: Port;
}

/**
 * The corners of a line between two nodes that crosses no node, and its arrow's direction; null if there is no such
 * route.
 */
export function routeAround(
  from: NodeBox,
  to: NodeBox,
  boxes: readonly NodeBox[],
  otherLines: readonly (readonly Point[])[],
): { points: readonly Point[]; towards: Direction } | null {
  const region: Rectangle = {
    left: Math.min(from.x, to.x) - SEARCH_MARGIN,
    top: Math.min(from.y, to.y) - SEARCH_MARGIN,
    right: Math.max(rightEdge(from), rightEdge(to)) + SEARCH_MARGIN,
    bottom: Math.max(from.y + from.height, to.y + to.height) + SEARCH_MARGIN,
  };
  const isNear = (one: Rectangle): boolean =>
    one.left < region.right &&
    one.right > region.left &&
    one.top < region.bottom &&
    one.bottom > region.top;
  const near = boxes.filter((box) => isNear(nodeRectangle(box, 0)));
  const blocks = near.map((box) => nodeRectangle(box, 5));
  const captions = near.flatMap((box) => captionRectangle(box) ?? []);
  const [starts, ends] = [startPorts(from), endPorts(to)];
  const [across, down] = [new Set<number>(), new Set<number>()];
  for (const { stub } of [...starts, ...ends]) {
    across.add(stub[0]);
    down.add(stub[1]);
  }
  for (const one of near) {
    const { left, top, right: most, bottom } = nodeRectangle(one, CLEARANCE);
    for (const x of [left, left - 7, most, most + 7]) across.add(x);
    for (const y of [top, top - 7, bottom]) down.add(y);
    const below = captionRectangle(one);
    if (below) down.add(below.bottom + 6);
  }
  const order = (numbers: Set<number>, least: number): number[] =>
    [...numbers].filter((one) => one >= least).sort((a, b) => a - b);
  // Nothing is drawn left of the graph or above it.
  const [xs, ys] = [order(across, 0), order(down, 0)];
  const segments = otherLines.flatMap((points) =>
    points.flatMap((point, k) => {
      const before = points[k - 1] ?? point;
      const isStraight = before[0] === point[0] || before[1] === point[1];
      return isStraight && k > 0 && intersects(before, point, region)
        ? [[before, point] as const]
        : [];
    }),
  );
  /** The cost of a straight segment; infinity if a node blocks it. */
  const segmentCost = (a: Point, b: Point): number => {
    if (blocks.some((one) => intersects(a, b, one))) return Number.POSITIVE_INFINITY;
    const length = Math.abs(b[0] - a[0]) + Math.abs(b[1] - a[1]);
    const isAcross = a[1] === b[1];
    const lane: Rectangle = {
      left: Math.min(a[0], b[0]) - (isAcross ? -1 : 4),
      right: Math.max(a[0], b[0]) + (isAcross ? -1 : 4),
      top: Math.min(a[1], b[1]) - (isAcross ? 4 : -1),
      bottom: Math.max(a[1], b[1]) + (isAcross ? 4 : -1),
    };
    const isShared = segments.some(
      ([one, other]) =>
        (isAcross ? one[1] === other[1] : one[0] === other[0]) && intersects(one, other, lane),
    );
    const isOnWords = captions.some((one) => intersects(a, b, one));
    return length * (1 + (isShared ? OVERLAP_COST : 0) + (isOnWords ? CAPTION_COST : 0));
  };
  const nameOf = (i: number, j: number, isAcross: boolean): number =>
    2 * (i * ys.length + j) + Number(isAcross);
  const goals = new Map<number, Port>();
  for (const port of ends) {
    const [i, j] = [xs.indexOf(port.stub[0]), ys.indexOf(port.stub[1])];
    if (i >= 0 && j >= 0) goals.set(nameOf(i, j, port.towards === "right"), port);
  }
  const leastTo = (i: number, j: number): number =>
    Math.min(
      ...ends.map(
        ({ stub }) => Math.abs(stub[0] - (xs[i] ?? 0)) + Math.abs(stub[1] - (ys[j] ?? 0)),
      ),
    );
  const queue = new PriorityQueue();
  for (const start of starts) {
    const [i, j] = [xs.indexOf(start.stub[0]), ys.indexOf(start.stub[1])];
    if (i < 0 || j < 0) continue;
    const estimate = leastTo(i, j);
    queue.add({
      i,
      j,
      isHorizontal: start.towards === "right",
      cost: 0,
      estimate,
      previous: null,
      start,
    });
  }
  const done = new Set<number>();
  for (let state = queue.take(); state !== undefined; state = queue.take()) {
    const { i, j, cost, start } = state;
    const name = nameOf(i, j, state.isHorizontal);
    if (done.has(name)) continue;
    done.add(name);
    const port = goals.get(name);
    if (port !== undefined) {
      return { points: routeCorners(state, xs, ys, port), towards: port.towards };
    }
    const here: Point = [xs[i] as number, ys[j] as number];
    for (const [di, dj] of [
      [1, 0],
      [-1, 0],
      [0, 1],
      [0, -1],
    ] as const) {
      const [x, y] = [xs[i + di], ys[j + dj]];
      if (x === undefined || y === undefined) continue;
      const isAcross = di !== 0;
      // Never reverse along the previous segment.
      const { previous } = state;
      if (previous !== null && previous.i === i + di && previous.j === j + dj) continue;
      if (previous === null && isBackwards(start.towards, di, dj)) continue;
      const price = segmentCost(here, [x, y]);
      if (price === Number.POSITIVE_INFINITY) continue;
      const turn = isAcross === state.isHorizontal ? 0 : CORNER_COST;
      const sum = cost + price + turn;
      queue.add({
        ...{ i: i + di, j: j + dj, isHorizontal: isAcross, cost: sum },
        ...{ estimate: sum + leastTo(i + di, j + dj), previous: state, start },
      });
    }
  }
  return null;
}

const isBackwards = (towards: Direction, di: number, dj: number): boolean =>
  (towards === "right" && di < 0) || (towards === "up" && dj > 0) || (towards === "down" && dj < 0);

function routeCorners(
  finalState: SearchState,
  xs: readonly number[],
  ys: readonly number[],
  endPort: Port,
): Point[] {
  const points: Point[] = [endPort.point];
  for (let state: SearchState | null = finalState; state !== null; state = state.previous) {
    points.unshift([xs[state.i] as number, ys[state.j] as number]);
  }
  points.unshift(finalState.start.point);
  // Keep only the corners.
  return points.filter((point, k) => {
    const [before, after] = [points[k - 1], points[k + 1]];
    if (before === undefined || after === undefined) return true;
    const straight =
      (before[0] === point[0] && after[0] === point[0]) ||
      (before[1] === point[1] && after[1] === point[1]);
    return !straight;
  });
}

/** A heap of search states, lowest estimate first. */
class PriorityQueue {
  private readonly heap: SearchState[] = [];

  add(state: SearchState): void {
    const { heap } = this;
    let k = heap.push(state) - 1;
    while (k > 0) {
      const parent = (k - 1) >> 1;
      if ((heap[parent] as SearchState).estimate <= state.estimate) break;
      heap[k] = heap[parent] as SearchState;
      k = parent;
    }
    heap[k] = state;
  }

  take(): SearchState | undefined {
    const { heap } = this;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let k = 0;
    for (;;) {
      let child = 2 * k + 1;
      if (child >= heap.length) break;
      const other = heap[child + 1];
      if (other !== undefined && other.estimate < (heap[child] as SearchState).estimate) child++;
      if ((heap[child] as SearchState).estimate >= last.estimate) break;
      heap[k] = heap[child] as SearchState;
      k = child;
    }
    heap[k] = last;
    return first;
  }
}
