// The names of the output's classes.
import { type Signal, signal } from "@preact/signals";

export interface ClassState {
  /** A name for each class, "" for a class without one; empty if there are only numbers. */
  readonly classNames: Signal<readonly string[]>;
}

export const classState = (): ClassState => ({ classNames: signal([]) });
