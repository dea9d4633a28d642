// Grouping of changes for undo: all of a drag, however long, and key presses and wheel events less than a second apart.
import { UNDO_COALESCE_MS } from "../messages.ts";

/** A unique step name; random, so that names also differ between pages. */
export const newUndoStepName = (): string => `step ${Math.random()}`;

/** Groups the changes of one control into undo steps. */
export interface UndoStepper {
  /** The step of a change made now. */
  currentStep(): string;
  /** Begin a drag. */
  beginDrag(): void;
  /** End the drag, if there is one: the next change starts a new step. */
  endDrag(): void;
}

export function createUndoStepper(): UndoStepper {
  let step = "";
  let held = false;
  let last = Number.NEGATIVE_INFINITY;
  return {
    currentStep() {
      const now = performance.now();
      if (!held && now - last >= UNDO_COALESCE_MS) step = newUndoStepName();
      last = now;
      return step;
    },
    beginDrag() {
      step = newUndoStepName();
      held = true;
    },
    endDrag() {
      if (!held) return;
      held = false;
      last = Number.NEGATIVE_INFINITY;
    },
  };
}

/**
 * Event handlers of a slider. If the mouse button is released outside of the page, only a change event ends the drag.
 */
export const dragHandlers = ({ beginDrag, endDrag }: UndoStepper) => ({
  onPointerDown: beginDrag,
  onPointerUp: endDrag,
  onPointerCancel: endDrag,
  onChange: endDrag,
});
