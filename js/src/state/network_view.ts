// How the Network tab shows the network.
import { type Signal, signal } from "@preact/signals";

export type NetworkLayout = "strip" | "graph";

/** A CSS transform of the graph: zoom, and position of the origin. */
export interface Camera {
  readonly zoom: number;
  readonly x: number;
  readonly y: number;
}

export interface NetworkViewState {
  /** null: chosen to suit the network and the available space. */
  readonly networkLayout: Signal<NetworkLayout | null>;
  /** Ids of the graph's open groups; null until the user opens or closes one. */
  readonly openGroups: Signal<ReadonlySet<string> | null>;
  /** A layer found by search. The graph opens its enclosing modules, then sets this to null. */
  readonly searchedLayer: Signal<string | null>;
  /** null: the whole graph if it is legible at that size, else its beginning. */
  readonly graphCamera: Signal<Camera | null>;
}

export const networkViewState = (): NetworkViewState => ({
  networkLayout: signal(null),
  openGroups: signal(null),
  searchedLayer: signal(null),
  graphCamera: signal(null),
});
