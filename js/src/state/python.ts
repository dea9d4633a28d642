// What the page computes otherwise than Python knows.
import { type Signal, signal } from "@preact/signals";

export interface PythonState {
  /**
   * Keys of values that have other numbers here than what Python sent last makes of them. Whoever changes values in the
   * page writes them here: layers in Python that follow from these are said to be of the last input from Python.
   */
  readonly changedValues: Signal<ReadonlySet<string>>;
}

export const pythonState = (): PythonState => ({ changedValues: signal(new Set<string>()) });
