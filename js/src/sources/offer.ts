// Sources run by code that comes behind the first picture: it is started for each Viewer once it is here.
import type { ViewerState } from "../state.ts";

/** Follows `state.source` and feeds by `state.feeder`; returns what ends that. */
export type RunSources = (state: ViewerState) => () => void;

let run: RunSources | undefined;
const waiting = new Set<() => void>();

/** The code is here. */
export function offerSources(given: RunSources): void {
  run = given;
  for (const start of waiting) start();
  waiting.clear();
}

/** Runs the sources of a Viewer from when their code is here; returns what ends that. */
export function attachSources(state: ViewerState): () => void {
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
}
