// The records that the layout works on: boxes of nodes and routes of edges. Lengths are CSS pixels at zoom 1.
import { displayStyle } from "../../network/display_kind.ts";
import type { GraphEdge, GraphNode } from "./module_graph.ts";
import type { ModuleGroup } from "./module_tree.ts";

/** The side of the square that a node's picture fits in. */
export const NODE_SIDE = 108;
export const OPERATOR_SIZE = { width: 36, height: 24 };
export const LISTED_NODE_SIZE = { width: 172 };
export const CAPTION_SIZE = { below: 54, beside: 104, range: 34 };
/**
 * For a name of 11 screen pixels: the width available for its longest part at zoom 1, and the width of a bold letter.
 */
export const NODE_NAME_METRICS = { width: 130, letter: 6.8 };
/**
 * The widest line of a caption below a node: the line starts at the node's left edge and may be wider than the node.
 */
export const MAX_CAPTION_WIDTH = 136;
export const GAPS = { across: 30, small: 14, rows: 48, skip: 56, bracket: 32, arch: 12, word: 18 };

/** The position of a node's caption; "inset" is below the node, right of the arrow that leaves there. */
export type CaptionSide = "below" | "inset" | "left" | "right" | "none";

export interface PlacedNode {
  readonly node: GraphNode;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly captionSide: CaptionSide;
}

export interface EdgeLine {
  readonly edge: GraphEdge;
  readonly from: GraphNode;
  readonly to: GraphNode;
  /** Pools and resamplings that are drawn on the edge. */
  readonly steps: readonly GraphNode[];
  /** The SVG path data. */
  readonly path: string;
  /** The centre of a label on the edge, and the label's maximum length; steps are also placed here. */
  readonly labelPosition: { readonly x: number; readonly y: number; readonly room: number };
  /** The centre of a label at the edge's end. */
  readonly endLabelPosition: { readonly x: number; readonly y: number };
}

/** An open group's name over those of its nodes that are in one row. */
export interface GroupBracket {
  readonly group: ModuleGroup;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  /** Whether the bracket shows the name: it is above the group's first nodes. */
  readonly hasName: boolean;
}

export interface GraphLayout {
  readonly nodes: readonly PlacedNode[];
  readonly lines: readonly EdgeLine[];
  readonly brackets: readonly GroupBracket[];
  readonly width: number;
  readonly height: number;
  /** The lowest zoom at which the longest name fits. */
  readonly minReadableZoom: number;
}

/** A node during layout. */
export interface NodeBox {
  readonly node: GraphNode;
  readonly width: number;
  readonly height: number;
  row: number;
  rank: number;
  lane: number;
  captionSide: CaptionSide;
  x: number;
  y: number;
}

/** An edge, or two edges with a step between them that is drawn on the line. */
export interface EdgeRoute {
  readonly edge: GraphEdge;
  readonly from: NodeBox;
  readonly to: NodeBox;
  readonly steps: readonly GraphNode[];
}

/** The offset, up and to the right, of the stacked edge behind a closed module. */
const STACK_OFFSET = 7;
export const stackOffset = ({ node }: NodeBox): number =>
  node.kind === "group" ? STACK_OFFSET : 0;
export const isMerge = (box: NodeBox): boolean => box.node.kind === "merge";
export const rightEdge = (box: NodeBox): number => box.x + box.width;
/** The height of a caption below a node; an image's caption includes its range. */
export const captionHeight = ({
  node,
  captionSide,
}: Pick<NodeBox, "node" | "captionSide">): number =>
  captionSide === "below" || captionSide === "inset"
    ? CAPTION_SIZE.below + (displayStyle(node.value).isImage ? CAPTION_SIZE.range : 0)
    : 0;
