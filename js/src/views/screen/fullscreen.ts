// Presentation mode: one view of the viewer fills the window, or the screen if the browser allows fullscreen.
import { effect } from "@preact/signals";
import type { Views } from "../context.ts";
import { px } from "../layout.ts";
import { MIN_PRESENTATION_ZOOM, presentationZoom } from "../presentation_mode.tsx";

/**
 * The room of a presented view in its own CSS pixels: the tour's network fits, and a projector has at least 1280×720.
 */
const PRESENTED_VIEW_SIZE = { width: 1113, height: 626 };

/** Follow `isPresenting`: the requested view is shown, else the first visible one. */
export function watchPresenting({ state, root, width }: Views, container: HTMLElement): () => void {
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
    if (width.value === 0) return; // the page's part is hidden, or not attached yet
    if (state.presentingView.value === null) state.presentingView.value = root;
    if (state.presentingView.value === root) undo ??= enterFullscreen(root, container, leave);
  });
  return () => {
    stop();
    if (undo === undefined) return;
    undo();
    leave();
  };
}

function enterFullscreen(root: HTMLElement, container: HTMLElement, leave: () => void): () => void {
  let here = true;
  let whole = false;
  const owner = root.getRootNode() as Document | ShadowRoot;
  // The view's place keeps its height, so that the notebook does not jump and a frame around it does not collapse.
  container.style.minHeight = px(root.offsetHeight);
  root.dataset.presenting = "";
  const enlarge = (): void => {
    const { width, height } = PRESENTED_VIEW_SIZE;
    const zoom = Math.max(
      MIN_PRESENTATION_ZOOM,
      Math.min(innerWidth / width, innerHeight / height),
    );
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
      // Needs a recent click or key press; inside a frame, the page must allow fullscreen too.
      if (!document.fullscreenEnabled || !navigator.userActivation?.isActive) return fill();
      await root.requestFullscreen();
      whole = true;
      if (!here) void document.exitFullscreen().catch(() => undefined);
    } catch {
      fill();
    }
  };
  const onScreen = (): void => {
    // Esc was handled by the browser.
    if (whole && owner.fullscreenElement !== root) leave();
  };
  // Handle Esc wherever the focus is, since only the presented view is visible; keys inside the viewer are handled in
  // keyboard.ts.
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
    container.style.minHeight = "";
    root.focus({ preventScroll: true });
  };
}
