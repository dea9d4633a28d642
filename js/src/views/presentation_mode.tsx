// Presentation mode for projectors: requests that one view fill the whole window (implemented in screen/fullscreen.ts).
import { batch, signal } from "@preact/signals";
import type { ViewerState } from "../state.ts";
import { useViews, type Views } from "./context.ts";
import { ProjectorIcon } from "./icons.tsx";

export const MIN_PRESENTATION_ZOOM = 1.15;

/** The zoom of presentation mode; pictures are drawn for it, so that their pixels stay whole. */
export const presentationZoom = signal(MIN_PRESENTATION_ZOOM);

/** The zoom of a view. */
export const zoomOf = ({ isPresenting, presentingView }: ViewerState, root: HTMLElement): number =>
  isPresenting.value && presentingView.value === root ? presentationZoom.value : 1;

/** Start presenting this view, or stop presenting any view. */
export function togglePresenting({ state, root }: Views): void {
  batch(() => {
    if (!state.isPresenting.peek()) state.presentingView.value = root;
    state.isPresenting.value = !state.isPresenting.peek();
  });
}

export function PresentButton() {
  const views = useViews();
  const on = views.state.isPresenting.value;
  return (
    <button
      type="button"
      class="nbg-button nbg-present"
      aria-pressed={on}
      title={on ? "Back to the notebook (Esc)" : "Presentation mode: full window, larger type (p)"}
      onClick={() => togglePresenting(views)}
    >
      <ProjectorIcon /> {on ? "Back" : "Present"}
    </button>
  );
}
