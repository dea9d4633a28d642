// Records of the module tree that the graph is made of: stages, the modules around them, repeated blocks.
import type { Network, Stage } from "../../network/network.ts";
import type { Value } from "../../plan/schema.ts";

/** A module's stages that stand one after the other. A module that is entered again later is another group. */
export interface Group {
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
export interface Item {
  readonly stage: Stage | null;
  readonly value: Value;
  readonly groups: readonly Group[];
  readonly links: readonly Link[];
}

export interface Tree {
  readonly items: readonly Item[];
  readonly groups: readonly Group[];
  /** Repeated blocks, by each of them. */
  readonly folds: ReadonlyMap<string, Fold>;
  /** How many stages read each item. */
  readonly readers: readonly number[];
  readonly network: Network;
}

/** Blocks of equal structure in the order in which they run. */
export type Fold = readonly Group[];
