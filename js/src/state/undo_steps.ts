// What is undone together: all of a drag, however long it is held, and keys and wheel within a second of each other.
import { ONE_STEP_MS } from "../messages.ts";

/** The name of a step that no other change has had: a random one, as rooms have copies of this file. */
export const newStepName = (): string => `step ${Math.random()}`;

/** Names the steps of one control. */
export interface UndoStepper {
  /** The step that a change of now belongs to. */
  currentStep(): string;
  /** A drag begins. */
  beginDrag(): void;
  /** It ends, if there is one: the next change is another step. */
  endDrag(): void;
}

export function createUndoStepper(): UndoStepper {
  let step = "";
  let held = false;
  let last = Number.NEGATIVE_INFINITY;
  return {
    currentStep() {
      const now = performance.now();
      if (!held && now - last >= ONE_STEP_MS) step = newStepName();
      last = now;
      return step;
    },
    beginDrag() {
      step = newStepName();
      held = true;
    },
    endDrag() {
      if (!held) return;
      held = false;
      last = Number.NEGATIVE_INFINITY;
    },
  };
}

/** What a slider tells its stepper. A mouse that is let go outside of the page ends with a change alone. */
export const dragHandlers = ({ beginDrag, endDrag }: UndoStepper) => ({
  onPointerDown: beginDrag,
  onPointerUp: endDrag,
  onPointerCancel: endDrag,
  onChange: endDrag,
});
