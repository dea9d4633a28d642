// What is undone together.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { UNDO_COALESCE_MS } from "../src/messages.ts";
import type { Edit } from "../src/plan/edits.ts";
import { editState, setEdits, undoEdits } from "../src/state/edits.ts";
import { createUndoStepper } from "../src/state/undo_steps.ts";

let now = 0;
mock.method(performance, "now", () => now);

const rotationEdits = (degrees: number): Edit[] => [
  { name: "rotate", transform: "rotate", parameters: [degrees] } as unknown as Edit,
];

test("a drag is one step, however long it is held, and keys are one within a second", () => {
  const state = editState();
  const stepper = createUndoStepper();
  let degrees = 0;
  /** How many steps there are behind a change so many milliseconds later. */
  const after = (ms: number, by = stepper): number => {
    now += ms;
    setEdits(state, rotationEdits(++degrees), by.currentStep());
    return state.undoStack.peek().length;
  };
  stepper.beginDrag();
  assert.deepEqual([after(5), after(20), after(5 * UNDO_COALESCE_MS), after(20)], [1, 1, 1, 1]);
  stepper.endDrag();
  assert.equal(after(10), 2, "what comes behind a drag is another step");
  assert.deepEqual([after(UNDO_COALESCE_MS - 1), after(UNDO_COALESCE_MS - 1)], [2, 2]);
  assert.equal(after(UNDO_COALESCE_MS), 3);
  stepper.endDrag(); // as a slider does behind each key
  assert.equal(after(10), 3);
  stepper.beginDrag();
  assert.equal(after(10), 4);
  const other = createUndoStepper();
  assert.deepEqual([after(10, other), after(10)], [5, 6], "another control came between");
  undoEdits(state);
  assert.deepEqual([after(10), after(10)], [6, 6], "what comes behind an undo is another step");
  state.currentEdits.value = structuredClone(state.currentEdits.peek()); // some hosts give back what they were told
  assert.equal(after(10), 6);
  state.currentEdits.value = { edits: rotationEdits(-1), weights: 0 };
  assert.equal(after(10), 7, "Python's change is not undone with what comes behind it");
});
