// The input that replaces the network's own.
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";

export interface InputState {
  /** The feature's object for the overridden input; null for the network's own input. */
  readonly inputOverride: Signal<object | null>;
  /** Whether new inputs arrive continuously. */
  readonly isInputLive: ReadonlySignal<boolean>;
  /** Whether the drawer below the toolbar is open. */
  readonly isDrawerOpen: Signal<boolean>;
}

export const inputState = (): InputState => ({
  inputOverride: signal(null),
  isInputLive: signal(false),
  isDrawerOpen: signal(false),
});
