// The module tree that the graph is built from: stages, the modules around them, and repeated blocks.
import type { Network, Stage } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";

/** A run of consecutive stages in one module. A module that is entered again later is another group. */
export interface ModuleGroup {
  readonly id: string;
  /** The module's path, e.g. "layer1.0". */
  readonly module: string;
  /** The name relative to the surrounding group, e.g. "0". */
  readonly title: string;
}

/** A tensor that a stage reads from another stage, an input or a layer. */
interface TensorLink {
  readonly from: number;
  readonly key: string;
}

/** A stage, or an input, with the groups around it, outermost first. */
export interface TreeItem {
  readonly stage: Stage | null;
  readonly value: Value;
  readonly groups: readonly ModuleGroup[];
  readonly links: readonly TensorLink[];
}

export interface ModuleTree {
  readonly items: readonly TreeItem[];
  readonly groups: readonly ModuleGroup[];
  /** The repeated blocks that each group id belongs to. */
  readonly repeatedBlocks: ReadonlyMap<string, RepeatedBlocks>;
  /** The number of stages that read each item. */
  readonly readerCounts: readonly number[];
  readonly network: Network;
}

/** Blocks of the same structure, in call order. */
export type RepeatedBlocks = readonly ModuleGroup[];
