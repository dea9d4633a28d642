// What enters the network in the place of the input that it came with.
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";

export interface InputState {
  /** What the engine's input was made of, as a feature has it; null where it is the network's own. */
  readonly inputOverride: Signal<object | null>;
  /** Inputs follow each other by themselves. */
  readonly isInputLive: ReadonlySignal<boolean>;
  /** The drawer below the bar is open. */
  readonly isDrawerOpen: Signal<boolean>;
}

export const inputState = (): InputState => ({
  inputOverride: signal(null),
  isInputLive: signal(false),
  isDrawerOpen: signal(false),
});
