// Code that runs for each Viewer and comes behind the first picture: it is started for each once it is here.
import type { ViewerState } from "./state.ts";

/** Follows a Viewer's state; returns what ends that. */
export type Runs = (state: ViewerState) => () => void;

export function attached() {
  let run: Runs | undefined;
  const waiting = new Set<() => void>();
  return {
    /** The code is here. */
    offer(given: Runs): void {
      run = given;
      for (const start of waiting) start();
      waiting.clear();
    },
    /** Runs it for a Viewer from when it is here; returns what ends that. */
    attach(state: ViewerState): () => void {
      let end: (() => void) | undefined;
      const start = () => {
        end = run?.(state);
      };
      if (run === undefined) waiting.add(start);
      else start();
      return () => {
        waiting.delete(start);
        end?.();
      };
    },
  };
}
