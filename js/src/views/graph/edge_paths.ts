// The graph's edges between placed nodes, as SVG paths with arrows.
import { crossesNodes, type Direction, type Point, routeAround } from "./edge_avoidance.ts";
import {
  type EdgeLine,
  type EdgeRoute,
  GAPS,
  isMerge,
  type NodeBox,
  rightEdge,
  stackOffset,
} from "./node_boxes.ts";

const formatPoints = (...points: Point[]): string =>
  points.map((point) => point.map((length) => Math.round(length * 10) / 10).join()).join(" ");
/** The point at distance `distance` before `to`, at most half-way to `from`. */
const pointBefore = ([x1, y1]: Point, [x2, y2]: Point, distance: number): Point => {
  const share = Math.min(0.5, distance / (Math.hypot(x2 - x1, y2 - y1) || 1));
  return [x2 + (x1 - x2) * share, y2 + (y1 - y2) * share];
};

/** A path along these points with rounded corners. */
function roundedPolyline(first: Point, ...rest: Point[]): string {
  let path = `M${formatPoints(first)}`;
  for (const [i, corner] of rest.entries()) {
    const before = rest[i - 1] ?? first;
    const next = rest[i + 1];
    path += next
      ? `L${formatPoints(pointBefore(before, corner, 6))}Q${formatPoints(corner, pointBefore(next, corner, 6))}`
      : `L${formatPoints(corner)}`;
  }
  return path;
}

/** The arrow head that points right, down or up. */
function arrowHead([x, y]: Point, towards: Direction): string {
  if (towards === "right")
    return `M${formatPoints([x - 5, y - 4])}L${formatPoints([x, y], [x - 5, y + 4])}`;
  const back = towards === "down" ? -5 : 5;
  return `M${formatPoints([x - 4, y + back])}L${formatPoints([x, y], [x + 4, y + back])}`;
}

/** The y above a node and the names of the open modules around it. */
const yAboveNames = (box: NodeBox): number =>
  box.y - stackOffset(box) - 25 - GAPS.bracket * box.node.groups.length;

/** The lines of all routes; `archHeights` holds the heights of those that pass over nodes of their lane. */
export function edgeLines(
  routes: readonly EdgeRoute[],
  boxes: readonly NodeBox[],
  archHeights: ReadonlyMap<EdgeRoute, number>,
): EdgeLine[] {
  const lines = routes.map((way) => edgeLine(way, archHeights.get(way)));
  const points = lines.map(({ path }) => samplePath(path));
  for (const [k, way] of routes.entries()) {
    const { edge, from, to, steps } = way;
    if (!crossesNodes(points[k] ?? [], from, to, boxes)) continue;
    const others = points.filter((_, other) => other !== k);
    const found = routeAround(from, to, boxes, others);
    const [first, ...rest] = found?.points ?? [];
    const last = rest.at(-1);
    if (found === null || first === undefined || last === undefined) continue;
    const { towards } = found;
    const ends = { right: [-12, 0], down: [0, -6], up: [0, 9] } as const;
    const [x, y] = ends[towards];
    lines[k] = {
      ...{ edge, from: from.node, to: to.node, steps },
      path: roundedPolyline(first, ...rest) + arrowHead(last, towards),
      labelPosition: labelPositionOf([first, ...rest]),
      endLabelPosition: { x: last[0] + x, y: last[1] + y },
    };
    points[k] = [first, ...rest];
  }
  return lines;
}

/** The middle of the longest horizontal segment. */
function labelPositionOf(points: readonly Point[]): EdgeLine["labelPosition"] {
  const pieces = points.slice(1).map(([x, y], k) => {
    const [before, height] = points[k] ?? [x, y];
    const room = y === height ? Math.abs(x - before) : 0;
    return { x: (x + before) / 2, y: (y + height) / 2, room };
  });
  return pieces.reduce((best, one) => (one.room > best.room ? one : best));
}

/** Points along a path without its arrow head, dense enough that straight segments between them approximate it. */
function samplePath(path: string): Point[] {
  const [line = ""] = path.slice(1).split("M");
  const points: Point[] = [];
  for (const [, kind, text = ""] of `M${line}`.matchAll(/([MLQC])([^MLQC]*)/g)) {
    const given = text
      .trim()
      .split(" ")
      .map((one): Point => {
        const [x = 0, y = 0] = one.split(",").map(Number);
        return [x, y];
      });
    const before = points.at(-1);
    if (kind !== "C" || before === undefined) points.push(...given);
    else for (let k = 1; k <= 24; k++) points.push(bezierPoint([before, ...given], k / 24));
  }
  return points;
}

/** A point of a Bézier curve. */
function bezierPoint(controlPoints: readonly Point[], t: number): Point {
  const next = controlPoints.slice(1).map(([x, y], k): Point => {
    const [a, b] = controlPoints[k] ?? [x, y];
    return [a + (x - a) * t, b + (y - b) * t];
  });
  return next.length > 1 ? bezierPoint(next, t) : (next[0] ?? [0, 0]);
}

/** The line of an edge; at height `archHeight`, if it has one, it passes over the nodes between its ends. */
function edgeLine(route: EdgeRoute, archHeight: number | undefined): EdgeLine {
  const { edge, from, to, steps } = route;
  const start: Point = [rightEdge(from) + 2 + stackOffset(from), from.y + from.height / 2];
  const end: Point = [to.x - 3, to.y + to.height / 2];
  const line = (path: string, x: number, y: number, room: number, last: Point): EdgeLine => {
    const ends = { from: from.node, to: to.node, steps };
    return {
      edge,
      ...ends,
      path,
      labelPosition: { x, y, room },
      endLabelPosition: { x: last[0], y: last[1] },
    };
  };
  const between = (a: number, b: number, y: number) => [(a + b) / 2, y, b - a] as const;
  const before: Point = [end[0] - 12, end[1]];
  if (archHeight !== undefined) {
    const a = rightEdge(from) - Math.min(10, from.width / 4);
    const b = to.x + Math.min(10, to.width / 2);
    const last: Point = [b, to.y - 3 - stackOffset(to)];
    const path = roundedPolyline(
      [a, from.y - 2 - stackOffset(from)],
      [a, archHeight],
      [b, archHeight],
      last,
    );
    return line(path + arrowHead(last, "down"), ...between(a, b, archHeight), [b, last[1] - 6]);
  }
  const low = Math.max(from.x, to.x);
  const high = Math.min(rightEdge(from), rightEdge(to));
  if (from.row !== to.row && high - low >= 8) {
    // Right of the caption below the upper node.
    const x = isMerge(to) ? to.x + to.width / 2 : low + (high - low) * 0.85;
    const down = to.y > from.y;
    const last: Point = [x, down ? to.y - 3 - stackOffset(to) : to.y + to.height + 3];
    const path = roundedPolyline(
      [x, down ? from.y + from.height + 2 : from.y - 2 - stackOffset(from)],
      last,
    );
    const middle = [x, yAboveNames(down ? to : from), 0] as const;
    return line(path + arrowHead(last, down ? "down" : "up"), ...middle, [
      x,
      last[1] + (down ? -9 : 9),
    ]);
  }
  if (to.row < from.row && isMerge(to)) {
    // Leave at the top, then run between the rows.
    const last: Point = [to.x + to.width / 2, to.y + to.height + 3];
    const x = rightEdge(from) - 12;
    const top = yAboveNames(from);
    const path = roundedPolyline(
      [x, from.y - 2 - stackOffset(from)],
      [x, top],
      [last[0], top],
      last,
    );
    return line(path + arrowHead(last, "up"), ...between(x, last[0], top), [last[0], last[1] + 9]);
  }
  if (from.row !== to.row) {
    const bend = Math.max(12, (end[0] - start[0]) / 2);
    const curve = formatPoints([start[0] + bend, start[1]], [end[0] - bend, end[1]], end);
    const middle = [(start[0] + end[0]) / 2, (start[1] + end[1]) / 2, end[0] - start[0]] as const;
    return line(`M${formatPoints(start)}C${curve}${arrowHead(end, "right")}`, ...middle, before);
  }
  const arrow = arrowHead(end, "right");
  if (from.lane === to.lane) {
    return line(
      roundedPolyline(start, end) + arrow,
      ...between(start[0], end[0], start[1]),
      before,
    );
  }
  if (to.lane > from.lane) {
    const x = start[0] + 8;
    const path = roundedPolyline(start, [x, start[1]], [x, end[1]], end);
    return line(path + arrow, ...between(x, end[0], end[1]), before);
  }
  // A branch that merges into a lane above: along its own lane, then up.
  if (isMerge(to)) {
    const last: Point = [to.x + to.width / 2, to.y + to.height + 3];
    const path = roundedPolyline(start, [last[0], start[1]], last) + arrowHead(last, "up");
    return line(path, ...between(start[0], last[0], start[1]), last);
  }
  const x = to.x - 14;
  const path = roundedPolyline(start, [x, start[1]], [x, end[1]], end);
  return line(path + arrow, ...between(start[0], x, start[1]), before);
}
