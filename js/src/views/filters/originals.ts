// What the weights were before they were edited: as the page first read them, or as Python set all of them since.
import type { ViewerState } from "../../state.ts";

const kept = new WeakMap<ViewerState, Map<string, Float32Array>>();
/** Viewers whose page has asked for an edit that Python's history doesn't have yet. */
const asking = new WeakSet<ViewerState>();

/** An edit is on its way: what comes back is none of the originals. */
export function freeze(state: ViewerState): void {
  asking.add(state);
}

/** Whether some weight is edited, or was and can be again. */
function isTouched(state: ViewerState): boolean {
  const moments = [state.edited.value, ...state.past.value, ...state.future.value];
  if (!moments.some(({ weights }) => weights > 0)) return asking.has(state);
  asking.delete(state);
  return true;
}

/** A parameter's elements before all edits; while there are none, those of now. */
export function originalOf(state: ViewerState, key: string, now: Float32Array): Float32Array {
  const all = kept.get(state) ?? new Map<string, Float32Array>();
  kept.set(state, all);
  const known = all.get(key);
  const touched = isTouched(state);
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
