// How the viewer is shown: which of its views are on screen, and whether it is in presentation mode.
import { type Signal, signal } from "@preact/signals";

export interface PresentationState {
  /** The viewer's views, and whether each is on screen. */
  readonly viewVisibility: Signal<ReadonlyMap<object, boolean>>;
  readonly isPresenting: Signal<boolean>;
  /** The view in presentation mode, if the page has several. */
  readonly presentingView: Signal<HTMLElement | null>;
}

export const presentationState = (): PresentationState => ({
  viewVisibility: signal(new Map()),
  isPresenting: signal(false),
  presentingView: signal(null),
});
