// For a projector: one view of the viewer takes the whole window, or the whole screen where the browser allows it.
import { batch, effect, signal } from "@preact/signals";
import type { ViewerState } from "../state.ts";
import { useViews, type Views } from "./context.ts";
import { Screen } from "./icons.tsx";
import { px } from "./layout.ts";

/** What a view has room for then, in its own CSS pixels: the tour's network fits, from a projector's 1280×720 on. */
const ROOM = { width: 1113, height: 626 };
const LEAST_ZOOM = 1.15;

/** How much larger everything is then; pictures are drawn for it, so that their pixels stay whole. */
const larger = signal(LEAST_ZOOM);

/** How much a view of the viewer is enlarged. */
export const zoomOf = ({ presenting, presenter }: ViewerState, root: HTMLElement): number =>
  presenting.value && presenter.value === root ? larger.value : 1;

/** Begins in this view, or ends wherever it is. */
export function togglePresenting({ state, root }: Views): void {
  batch(() => {
    if (!state.presenting.peek()) state.presenter.value = root;
    state.presenting.value = !state.presenting.peek();
  });
}

/** Follows `presenting`; of several views the one that was asked shows it, else the first that is seen. */
export function watchPresenting({ state, root, width }: Views, place: HTMLElement): () => void {
  let undo: (() => void) | undefined;
  const leave = (): void => {
    state.presenting.value = false;
  };
  const stop = effect(() => {
    if (!state.presenting.value) {
      state.presenter.value = null;
      undo?.();
      undo = undefined;
      return;
    }
    if (width.value === 0) return; // a page's hidden part, or not yet anywhere
    if (state.presenter.value === null) state.presenter.value = root;
    if (state.presenter.value === root) undo ??= present(root, place, leave);
  });
  return () => {
    stop();
    if (undo === undefined) return;
    undo();
    leave();
  };
}

function present(root: HTMLElement, place: HTMLElement, leave: () => void): () => void {
  let here = true;
  let whole = false;
  const owner = root.getRootNode() as Document | ShadowRoot;
  // What the view stood in keeps its height, so that the notebook does not jump, nor a frame around it close.
  place.style.minHeight = px(root.offsetHeight);
  root.dataset.presenting = "";
  const enlarge = (): void => {
    const { width, height } = ROOM;
    const zoom = Math.max(LEAST_ZOOM, Math.min(innerWidth / width, innerHeight / height));
    larger.value = zoom;
    root.style.setProperty("zoom", String(zoom));
  };
  enlarge();
  const fill = (): void => {
    if (!here || typeof root.showPopover !== "function") return;
    root.popover = "manual";
    root.showPopover();
  };
  const screen = async (): Promise<void> => {
    try {
      // Only after a click or a key of the reader's own; in a frame its page must allow it too.
      if (!document.fullscreenEnabled || !navigator.userActivation?.isActive) return fill();
      await root.requestFullscreen();
      whole = true;
      if (!here) void document.exitFullscreen().catch(() => undefined);
    } catch {
      fill();
    }
  };
  const onScreen = (): void => {
    // The browser's own Esc.
    if (whole && owner.fullscreenElement !== root) leave();
  };
  // Wherever the focus is, there is nothing else to be seen; the viewer's own keys are with the others.
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || event.composedPath().includes(root)) return;
    event.stopPropagation();
    leave();
  };
  document.addEventListener("fullscreenchange", onScreen);
  window.addEventListener("keydown", onKey, true);
  window.addEventListener("resize", enlarge);
  void screen();
  root.focus({ preventScroll: true });
  return () => {
    here = false;
    document.removeEventListener("fullscreenchange", onScreen);
    window.removeEventListener("keydown", onKey, true);
    window.removeEventListener("resize", enlarge);
    if (owner.fullscreenElement === root) void document.exitFullscreen().catch(() => undefined);
    root.popover = null;
    delete root.dataset.presenting;
    root.style.removeProperty("zoom");
    place.style.minHeight = "";
    root.focus({ preventScroll: true });
  };
}

export function PresentButton() {
  const views = useViews();
  const on = views.state.presenting.value;
  return (
    <button
      type="button"
      class="nbg-button nbg-present"
      aria-pressed={on}
      title={
        on ? "Back to the notebook (Esc)" : "For a projector: the whole window, larger type (p)"
      }
      onClick={() => togglePresenting(views)}
    >
      <Screen /> {on ? "Back" : "Present"}
    </button>
  );
}
