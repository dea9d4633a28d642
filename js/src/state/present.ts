// How the viewer is shown: which of its views are on screen, and whether for a projector.
import { type Signal, signal } from "@preact/signals";

export interface PresentState {
  /** Its views, and whether each is on screen. */
  readonly seen: Signal<ReadonlyMap<object, boolean>>;
  readonly presenting: Signal<boolean>;
  /** The view that does it, of several in the page. */
  readonly presenter: Signal<HTMLElement | null>;
}

export const presentState = (): PresentState => ({
  seen: signal(new Map()),
  presenting: signal(false),
  presenter: signal(null),
});
