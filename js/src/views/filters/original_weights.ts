// The weights before they were edited: as first read by the page, or as last set as a whole by Python.
import type { ViewerState } from "../../state.ts";

const originalsByViewer = new WeakMap<ViewerState, Map<string, Float32Array>>();
/** Viewers whose page has requested an edit that is not yet in Python's history. */
const viewersWithPendingEdits = new WeakSet<ViewerState>();

/** An edit is in flight: values that arrive from now on are not the originals. */
export function markEditPending(state: ViewerState): void {
  viewersWithPendingEdits.add(state);
}

/** Whether a weight edit is active or can be undone or redone, or an edit is pending. */
function hasWeightEdits(state: ViewerState): boolean {
  const snapshots = [state.currentEdits.value, ...state.undoStack.value, ...state.redoStack.value];
  if (!snapshots.some(({ weights }) => weights > 0)) return viewersWithPendingEdits.has(state);
  viewersWithPendingEdits.delete(state);
  return true;
}

/** A parameter's elements before all edits; the current elements if there are no edits. */
export function originalWeights(
  state: ViewerState,
  key: string,
  current: Float32Array,
): Float32Array {
  const all = originalsByViewer.get(state) ?? new Map<string, Float32Array>();
  originalsByViewer.set(state, all);
  const known = all.get(key);
  const touched = hasWeightEdits(state);
  if (touched && known !== undefined && known.length === current.length) return known;
  all.set(key, current);
  return current;
}

/** Whether two elements differ; NaN equals NaN. */
export const differs = (a: number | undefined, b: number | undefined): boolean =>
  !Object.is(a, b) && a !== b;

/** The number of elements that differ from the originals. */
export function countChanged(current: Float32Array, original: Float32Array): number {
  if (current === original) return 0;
  let count = 0;
  for (let k = 0; k < current.length; k++) if (differs(current[k], original[k])) count++;
  return count;
}
