// Nodes and edges of the graph while they are placed, and what is known of them then. Lengths are CSS pixels at zoom 1.
import { displayOf } from "../../network/display.ts";
import type { Edge, Node } from "./tree.ts";
import type { Group } from "./types.ts";

/** A node's picture fits this square. */
export const SIDE = 108;
export const SIGN = { width: 36, height: 24 };
export const LIST = { width: 172 };
export const CAPTION = { below: 54, beside: 104, range: 34 };
/** A name of 11 pixels on screen: the room for its longest part at zoom 1, and what a bold letter takes. */
export const NAME = { width: 130, letter: 6.8 };
/** The widest line below a node: it begins with the node, and may be longer. */
export const WORDS = 136;
export const GAP = { across: 30, small: 14, rows: 48, skip: 56, bracket: 32, arch: 12, word: 18 };

/** Where a node's words stand; "inset" is below it, right of the arrow that comes from there. */
export type Words = "below" | "inset" | "left" | "right" | "none";

export interface Placed {
  readonly node: Node;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly words: Words;
}

export interface Line {
  readonly edge: Edge;
  readonly from: Node;
  readonly to: Node;
  /** Pools and resamplings on it. */
  readonly steps: readonly Node[];
  /** Of an SVG path. */
  readonly path: string;
  /** Where a word on it has its middle, and how long it may be; steps sit here too. */
  readonly middle: { readonly x: number; readonly y: number; readonly room: number };
  /** Where a word at its end has its middle. */
  readonly end: { readonly x: number; readonly y: number };
}

/** An open group's name over its nodes in one row. */
export interface Bracket {
  readonly group: Group;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  /** It bears the name: the group's first nodes are below it. */
  readonly named: boolean;
}

export interface Placement {
  readonly nodes: readonly Placed[];
  readonly lines: readonly Line[];
  readonly brackets: readonly Bracket[];
  readonly width: number;
  readonly height: number;
  /** The zoom from which on the longest name has room. */
  readonly readable: number;
}

/** A node while it is placed. */
export interface Box {
  readonly node: Node;
  readonly width: number;
  readonly height: number;
  row: number;
  rank: number;
  lane: number;
  words: Words;
  x: number;
  y: number;
}

/** An edge, or two with a step between them that is drawn on it. */
export interface Way {
  readonly edge: Edge;
  readonly from: Box;
  readonly to: Box;
  readonly steps: readonly Node[];
}

/** By how much the edge behind a closed module stands out above and to the right. */
const STACK = 7;
export const stack = ({ node }: Box): number => (node.kind === "group" ? STACK : 0);
export const isSmall = (box: Box): boolean => box.node.kind === "merge";
export const right = (box: Box): number => box.x + box.width;
/** How high the words of a node are, where they stand below it; an image has its range among them. */
export const wordsHeight = ({ node, words }: Pick<Box, "node" | "words">): number =>
  words === "below" || words === "inset"
    ? CAPTION.below + (displayOf(node.value).image ? CAPTION.range : 0)
    : 0;
