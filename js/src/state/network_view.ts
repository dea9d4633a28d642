// How the Network tab shows the network.
import { type Signal, signal } from "@preact/signals";

export type NetworkLayout = "strip" | "graph";

/** A CSS transform of the graph: a zoom, and where its origin is. */
export interface Camera {
  readonly zoom: number;
  readonly x: number;
  readonly y: number;
}

export interface NetworkViewState {
  /** Null is what suits the network and the room. */
  readonly networkLayout: Signal<NetworkLayout | null>;
  /** Ids of the graph's open groups; null before somebody opened or closed one. */
  readonly openGroups: Signal<ReadonlySet<string> | null>;
  /** A layer that was looked for: the graph opens the modules around it; null when it has. */
  readonly searchedLayer: Signal<string | null>;
  /** Null is the whole graph where that can be read, else its beginning. */
  readonly graphCamera: Signal<Camera | null>;
}

export const networkViewState = (): NetworkViewState => ({
  networkLayout: signal(null),
  openGroups: signal(null),
  searchedLayer: signal(null),
  graphCamera: signal(null),
});
