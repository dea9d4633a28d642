// What the weights were before they were edited: as the page first read them, or as Python set all of them since.
import type { ViewerState } from "../../state.ts";

const originalsByViewer = new WeakMap<ViewerState, Map<string, Float32Array>>();
/** Viewers whose page has asked for an edit that Python's history doesn't have yet. */
const pendingEdits = new WeakSet<ViewerState>();

/** An edit is on its way: what comes back is none of the originals. */
export function markEditPending(state: ViewerState): void {
  pendingEdits.add(state);
}

/** Whether some weight is edited, or was and can be again. */
function hasWeightEdits(state: ViewerState): boolean {
  const moments = [state.presentEdits.value, ...state.pastEdits.value, ...state.futureEdits.value];
  if (!moments.some(({ weights }) => weights > 0)) return pendingEdits.has(state);
  pendingEdits.delete(state);
  return true;
}

/** A parameter's elements before all edits; while there are none, those of now. */
export function originalWeights(state: ViewerState, key: string, now: Float32Array): Float32Array {
  const all = originalsByViewer.get(state) ?? new Map<string, Float32Array>();
  originalsByViewer.set(state, all);
  const known = all.get(key);
  const touched = hasWeightEdits(state);
  if (touched && known !== undefined && known.length === now.length) return known;
  all.set(key, now);
  return now;
}

/** Whether an element is another one; NaN is one number here. */
export const differs = (a: number | undefined, b: number | undefined): boolean =>
  !Object.is(a, b) && a !== b;

/** How many elements are others than they were. */
export function countChanged(now: Float32Array, original: Float32Array): number {
  if (now === original) return 0;
  let count = 0;
  for (let k = 0; k < now.length; k++) if (differs(now[k], original[k])) count++;
  return count;
}
