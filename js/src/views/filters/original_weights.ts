// The weights before they were edited: as first read by the page, or as last set as a whole by Python.
import type { ViewerState } from "../../state.ts";

const originalsByViewer = new WeakMap<ViewerState, Map<string, Float32Array>>();
/** Viewers whose page has requested an edit that is not yet in Python's history. */
const pendingEdits = new WeakSet<ViewerState>();

/** An edit is in flight: values that arrive from now on are not the originals. */
export function markEditPending(state: ViewerState): void {
  pendingEdits.add(state);
}

/** Whether a weight edit is active or can be undone or redone, or an edit is pending. */
function hasWeightEdits(state: ViewerState): boolean {
  const snapshots = [
    state.presentEdits.value,
    ...state.pastEdits.value,
    ...state.futureEdits.value,
  ];
  if (!snapshots.some(({ weights }) => weights > 0)) return pendingEdits.has(state);
  pendingEdits.delete(state);
  return true;
}

/** A parameter's elements before all edits; the current elements if there are no edits. */
export function originalWeights(state: ViewerState, key: string, now: Float32Array): Float32Array {
  const all = originalsByViewer.get(state) ?? new Map<string, Float32Array>();
  originalsByViewer.set(state, all);
  const known = all.get(key);
  const touched = hasWeightEdits(state);
  if (touched && known !== undefined && known.length === now.length) return known;
  all.set(key, now);
  return now;
}

/** Whether two elements differ; NaN equals NaN. */
export const differs = (a: number | undefined, b: number | undefined): boolean =>
  !Object.is(a, b) && a !== b;

/** The number of elements that differ from the originals. */
export function countChanged(now: Float32Array, original: Float32Array): number {
  if (now === original) return 0;
  let count = 0;
  for (let k = 0; k < now.length; k++) if (differs(now[k], original[k])) count++;
  return count;
}
