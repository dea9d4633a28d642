// Nodes and edges of the graph while they are placed, and what is known of them then. Lengths are CSS pixels at zoom 1.
import { drawKind } from "../../network/display_kind.ts";
import type { GraphEdge, GraphNode } from "./module_graph.ts";
import type { ModuleGroup } from "./module_tree.ts";

/** A node's picture fits this square. */
export const NODE_SIDE = 108;
export const OPERATOR_SIZE = { width: 36, height: 24 };
export const LIST_SIZE = { width: 172 };
export const CAPTION_SIZE = { below: 54, beside: 104, range: 34 };
/** A name of 11 pixels on screen: the room for its longest part at zoom 1, and what a bold letter takes. */
export const NAME_SIZE = { width: 130, letter: 6.8 };
/** The widest line below a node: it begins with the node, and may be longer. */
export const MAX_CAPTION_WIDTH = 136;
export const GAPS = { across: 30, small: 14, rows: 48, skip: 56, bracket: 32, arch: 12, word: 18 };

/** Where a node's words stand; "inset" is below it, right of the arrow that comes from there. */
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
  /** Pools and resamplings on it. */
  readonly steps: readonly GraphNode[];
  /** Of an SVG path. */
  readonly path: string;
  /** Where a word on it has its middle, and how long it may be; steps sit here too. */
  readonly labelPosition: { readonly x: number; readonly y: number; readonly room: number };
  /** Where a word at its end has its middle. */
  readonly end: { readonly x: number; readonly y: number };
}

/** An open group's name over its nodes in one row. */
export interface GroupBracket {
  readonly group: ModuleGroup;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  /** It bears the name: the group's first nodes are below it. */
  readonly hasName: boolean;
}

export interface GraphLayout {
  readonly nodes: readonly PlacedNode[];
  readonly lines: readonly EdgeLine[];
  readonly brackets: readonly GroupBracket[];
  readonly width: number;
  readonly height: number;
  /** The zoom from which on the longest name has room. */
  readonly minReadableZoom: number;
}

/** A node while it is placed. */
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

/** An edge, or two with a step between them that is drawn on it. */
export interface EdgeRoute {
  readonly edge: GraphEdge;
  readonly from: NodeBox;
  readonly to: NodeBox;
  readonly steps: readonly GraphNode[];
}

/** By how much the edge behind a closed module stands out above and to the right. */
const STACK = 7;
export const stackOffset = ({ node }: NodeBox): number => (node.kind === "group" ? STACK : 0);
export const isMerge = (box: NodeBox): boolean => box.node.kind === "merge";
export const rightEdge = (box: NodeBox): number => box.x + box.width;
/** How high the words of a node are, where they stand below it; an image has its range among them. */
export const captionHeight = ({
  node,
  captionSide,
}: Pick<NodeBox, "node" | "captionSide">): number =>
  captionSide === "below" || captionSide === "inset"
    ? CAPTION_SIZE.below + (drawKind(node.value).isImage ? CAPTION_SIZE.range : 0)
    : 0;
