// Whether the viewer is shown for a projector.
import { type Signal, signal } from "@preact/signals";

export interface PresentState {
  readonly presenting: Signal<boolean>;
  /** The view that does it, of several in the page. */
  readonly presenter: Signal<HTMLElement | null>;
}

export const presentState = (): PresentState => ({
  presenting: signal(false),
  presenter: signal(null),
});
