// For a projector: one view of the viewer takes the whole window, or the whole screen where the browser allows it.
import { effect } from "@preact/signals";
import type { Views } from "../context.ts";
import { px } from "../layout.ts";
import { MIN_ZOOM, presentationZoom } from "../present.tsx";

/** What a view has room for then, in its own CSS pixels: the tour's network fits, from a projector's 1280×720 on. */
const ROOM = { width: 1113, height: 626 };

/** Follows `presenting`; of several views the one that was asked shows it, else the first that is seen. */
export function watchPresenting({ state, root, width }: Views, place: HTMLElement): () => void {
  let undo: (() => void) | undefined;
  const leave = (): void => {
    state.isPresenting.value = false;
  };
  const stop = effect(() => {
    if (!state.isPresenting.value) {
      state.presentingView.value = null;
      undo?.();
      undo = undefined;
      return;
    }
    if (width.value === 0) return; // a page's hidden part, or not yet anywhere
    if (state.presentingView.value === null) state.presentingView.value = root;
    if (state.presentingView.value === root) undo ??= enterFullscreen(root, place, leave);
  });
  return () => {
    stop();
    if (undo === undefined) return;
    undo();
    leave();
  };
}

function enterFullscreen(root: HTMLElement, place: HTMLElement, leave: () => void): () => void {
  let here = true;
  let whole = false;
  const owner = root.getRootNode() as Document | ShadowRoot;
  // What the view stood in keeps its height, so that the notebook does not jump, nor a frame around it close.
  place.style.minHeight = px(root.offsetHeight);
  root.dataset.presenting = "";
  const enlarge = (): void => {
    const { width, height } = ROOM;
    const zoom = Math.max(MIN_ZOOM, Math.min(innerWidth / width, innerHeight / height));
    presentationZoom.value = zoom;
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
