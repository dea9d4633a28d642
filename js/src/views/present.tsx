// For a projector: asks for one view of the viewer in the whole window (screen/present.ts shows it).
import { batch, signal } from "@preact/signals";
import type { ViewerState } from "../state.ts";
import { useViews, type Views } from "./context.ts";
import { Screen } from "./icons.tsx";

export const LEAST_ZOOM = 1.15;

/** How much larger everything is then; pictures are drawn for it, so that their pixels stay whole. */
export const larger = signal(LEAST_ZOOM);

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
