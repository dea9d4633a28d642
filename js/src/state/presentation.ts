// How the viewer is shown: which of its views are on screen, and whether for a projector.
import { type Signal, signal } from "@preact/signals";

export interface PresentationState {
  /** Its views, and whether each is on screen. */
  readonly viewVisibility: Signal<ReadonlyMap<object, boolean>>;
  readonly isPresenting: Signal<boolean>;
  /** The view that does it, of several in the page. */
  readonly presentingView: Signal<HTMLElement | null>;
}

export const presentationState = (): PresentationState => ({
  viewVisibility: signal(new Map()),
  isPresenting: signal(false),
  presentingView: signal(null),
});
