// Whether a view is on screen: what nobody sees rests.
import type { Views } from "./context.ts";

/** Notes in `seen` whether this view is on screen. */
export function watchSeen({ root, state }: Views): () => void {
  const set = (change: (seen: Map<object, boolean>) => void): void => {
    const seen = new Map(state.seen.peek());
    change(seen);
    state.seen.value = seen;
  };
  // Until it is known: what was opened is looked at.
  set((seen) => seen.set(root, true));
  const observer = new IntersectionObserver((changes) => {
    const is = changes.at(-1)?.isIntersecting ?? false;
    if (state.seen.peek().get(root) !== is) set((seen) => seen.set(root, is));
  });
  observer.observe(root);
  return () => {
    observer.disconnect();
    set((seen) => seen.delete(root));
  };
}
