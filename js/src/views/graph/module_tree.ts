// Records of the module tree that the graph is made of: stages, the modules around them, repeated blocks.
import type { Network, Stage } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";

/** A module's stages that stand one after the other. A module that is entered again later is another group. */
export interface ModuleGroup {
  readonly id: string;
  /** The module's path: "layer1.0". */
  readonly module: string;
  /** The name below the group around it: "0". */
  readonly title: string;
}

/** What travels from one stage, input or layer to a stage. */
interface Link {
  readonly from: number;
  readonly key: string;
}

/** A stage, or an input, with the groups around it from the outermost on. */
export interface TreeItem {
  readonly stage: Stage | null;
  readonly value: Value;
  readonly groups: readonly ModuleGroup[];
  readonly links: readonly Link[];
}

export interface ModuleTree {
  readonly items: readonly TreeItem[];
  readonly groups: readonly ModuleGroup[];
  /** Repeated blocks, by each of them. */
  readonly repeatedBlocks: ReadonlyMap<string, RepeatedBlocks>;
  /** How many stages read each item. */
  readonly readerCounts: readonly number[];
  readonly network: Network;
}

/** Blocks of equal structure in the order in which they run. */
export type RepeatedBlocks = readonly ModuleGroup[];
