// Tracks whether a view is on screen; a view off screen does no work.
import type { Views } from "./context.ts";

/** Keeps this view’s entry in `seen` current; returns a function that removes it. */
export function trackVisibility({ root, state }: Views): () => void {
  const set = (change: (seen: Map<object, boolean>) => void): void => {
    const seen = new Map(state.viewVisibility.peek());
    change(seen);
    state.viewVisibility.value = seen;
  };
  // A view that was just opened counts as on screen until the observer reports.
  set((seen) => seen.set(root, true));
  const observer = new IntersectionObserver((changes) => {
    const is = changes.at(-1)?.isIntersecting ?? false;
    if (state.viewVisibility.peek().get(root) !== is) set((seen) => seen.set(root, is));
  });
  observer.observe(root);
  return () => {
    observer.disconnect();
    set((seen) => seen.delete(root));
  };
}
