// Values that differ between the page and Python.
import { type Signal, signal } from "@preact/signals";

export interface PythonState {
  /**
   * Keys of values that differ from the results of what Python sent last. Code that changes values in the page adds
   * their keys here. Layers in Python that depend on them are then marked as computed for the last input from Python.
   */
  readonly changedValues: Signal<ReadonlySet<string>>;
}

export const pythonState = (): PythonState => ({ changedValues: signal(new Set<string>()) });
