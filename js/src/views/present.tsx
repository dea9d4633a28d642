// For a projector: asks for one view of the viewer in the whole window (screen/fullscreen.ts shows it).
import { batch, signal } from "@preact/signals";
import type { ViewerState } from "../state.ts";
import { useViews, type Views } from "./context.ts";
import { ProjectorIcon } from "./icons.tsx";

export const MIN_ZOOM = 1.15;

/** How much larger everything is then; pictures are drawn for it, so that their pixels stay whole. */
export const presentationZoom = signal(MIN_ZOOM);

/** How much a view of the viewer is enlarged. */
export const zoomOf = ({ isPresenting, presentingView }: ViewerState, root: HTMLElement): number =>
  isPresenting.value && presentingView.value === root ? presentationZoom.value : 1;

/** Begins in this view, or ends wherever it is. */
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
