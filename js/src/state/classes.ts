// What the output's classes are called.
import { type Signal, signal } from "@preact/signals";

export interface ClassState {
  /** A name for each of them, "" for one without; empty where there are only numbers. */
  readonly classNames: Signal<readonly string[]>;
}

export const classState = (): ClassState => ({ classNames: signal([]) });
