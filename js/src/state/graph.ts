// How the Network tab shows the network.
import { type Signal, signal } from "@preact/signals";

export type Form = "strip" | "graph";

/** A CSS transform of the graph: a zoom, and where its origin is. */
export interface Camera {
  readonly zoom: number;
  readonly x: number;
  readonly y: number;
}

export interface GraphState {
  /** Null is what suits the network and the room. */
  readonly form: Signal<Form | null>;
  /** Ids of the graph's open groups; null before somebody opened or closed one. */
  readonly opened: Signal<ReadonlySet<string> | null>;
  /** A layer that was looked for: the graph opens the modules around it; null when it has. */
  readonly sought: Signal<string | null>;
  /** Null is the whole graph where that can be read, else its beginning. */
  readonly camera: Signal<Camera | null>;
}

export const graphState = (): GraphState => ({
  form: signal(null),
  opened: signal(null),
  sought: signal(null),
  camera: signal(null),
});
