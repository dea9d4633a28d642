// What is undone together: all of a drag, however long it is held, and keys and wheel within a second of each other.
import { ONE_STEP_MS } from "../messages.ts";

/** The name of a step that no other change has had: a random one, as rooms have copies of this file. */
export const newStep = (): string => `step ${Math.random()}`;

/** Names the steps of one control. */
export interface Stepper {
  /** The step that a change of now belongs to. */
  name(): string;
  /** A drag begins. */
  press(): void;
  /** It ends, if there is one: the next change is another step. */
  release(): void;
}

export function createStepper(): Stepper {
  let step = "";
  let held = false;
  let last = Number.NEGATIVE_INFINITY;
  return {
    name() {
      const now = performance.now();
      if (!held && now - last >= ONE_STEP_MS) step = newStep();
      last = now;
      return step;
    },
    press() {
      step = newStep();
      held = true;
    },
    release() {
      if (!held) return;
      held = false;
      last = Number.NEGATIVE_INFINITY;
    },
  };
}

/** What a slider tells its stepper. A mouse that is let go outside of the page ends with a change alone. */
export const dragOf = ({ press, release }: Stepper) => ({
  onPointerDown: press,
  onPointerUp: release,
  onPointerCancel: release,
  onChange: release,
});
