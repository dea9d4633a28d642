// The edits (bends, injected and frozen values) and their undo history; the same as features/edits/store.py in Python.
import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { MAX_UNDO_STEPS } from "../messages.ts";
import { type Edit, RECORDS } from "../plan/edits.ts";

/** The edits at one time, and the number of weight edits applied. */
export interface EditSnapshot {
  readonly edits: readonly Edit[];
  readonly weights: number;
}

/** New values in a parameter. */
export interface WeightEdit {
  /** The parameter's key. */
  readonly name: string;
  /** Row-major index of the first changed element. */
  readonly index: number;
  readonly values: readonly number[];
  /** Edits of one step are undone together. */
  readonly step: string;
}

export interface EditState {
  readonly currentEdits: Signal<EditSnapshot>;
  /** Undo stack, and redo stack below. */
  readonly undoStack: Signal<readonly EditSnapshot[]>;
  readonly redoStack: Signal<readonly EditSnapshot[]>;
  /** Whether the network is shown without its edits, while the user holds a key. */
  readonly areEditsBypassed: Signal<boolean>;
  /** The error of the last change of edits; "" if it succeeded. */
  readonly editError: Signal<string>;
  /** Edits by a feature: they are not the user's and can't be undone. No parity check runs meanwhile. */
  readonly featureEdits: Signal<readonly Edit[]>;
  /** All edits that the engine receives. */
  readonly engineEdits: ReadonlySignal<readonly Edit[]>;
  /** Change a weight through Python, which holds the model; null without Python. */
  readonly setWeight: Signal<((edit: WeightEdit) => void) | null>;
}

export const editState = (): EditState => {
  const currentEdits = signal<EditSnapshot>({ edits: [], weights: 0 });
  const featureEdits = signal<readonly Edit[]>([]);
  const engineEdits = computed(() =>
    featureEdits.value.length > 0
      ? [...featureEdits.value, ...currentEdits.value.edits]
      : currentEdits.value.edits,
  );
  return { currentEdits, featureEdits, engineEdits, ...createHistorySignals() };
};

const createHistorySignals = () => ({
  undoStack: signal<readonly EditSnapshot[]>([]),
  redoStack: signal<readonly EditSnapshot[]>([]),
  areEditsBypassed: signal(false),
  editError: signal(""),
  setWeight: signal<((edit: WeightEdit) => void) | null>(null),
});

/**
 * The last step's name and the edits it produced. If Python has changed the edits since, the next change starts a new
 * step.
 */
const lastUndoSteps = new WeakMap<Signal<EditSnapshot>, readonly [step: string, made: string]>();

/** Set the current edits. Consecutive changes with the same `undoStep` are undone together. */
export function setEdits(state: EditState, edits: readonly Edit[], undoStep = ""): void {
  const before = state.currentEdits.peek();
  const after: EditSnapshot = { ...before, edits };
  const [last, lastResult] = lastUndoSteps.get(state.currentEdits) ?? [];
  const joins = undoStep !== "" && undoStep === last && JSON.stringify(before) === lastResult;
  lastUndoSteps.set(state.currentEdits, [undoStep, JSON.stringify(after)]);
  batch(() => {
    if (!joins) state.undoStack.value = [...state.undoStack.peek(), before].slice(-MAX_UNDO_STEPS);
    state.redoStack.value = [];
    state.currentEdits.value = after;
  });
}

export const undoEdits = (state: EditState): void =>
  moveSnapshot(state, state.undoStack, state.redoStack);
export const redoEdits = (state: EditState): void =>
  moveSnapshot(state, state.redoStack, state.undoStack);

function moveSnapshot(
  state: EditState,
  source: Signal<readonly EditSnapshot[]>,
  target: Signal<readonly EditSnapshot[]>,
): void {
  const moment = source.peek().at(-1);
  if (moment === undefined) return;
  lastUndoSteps.delete(state.currentEdits);
  batch(() => {
    target.value = [...target.peek(), state.currentEdits.peek()];
    source.value = source.peek().slice(0, -1);
    state.currentEdits.value = moment;
  });
}

/** The edits that have an effect. */
export const activeEdits = (edits: readonly Edit[]): readonly Edit[] =>
  edits.filter(({ enabled, mix, channels }) => enabled && mix > 0 && channels?.length !== 0);

/** Whether there is an active edit that only a graphics device can compute, so that no framework can reproduce it. */
export const hasGpuOnlyEdits = (edits: readonly Edit[]): boolean =>
  activeEdits(edits).some(({ transform }) => transform === "glsl");

/**
 * The active edits in the format of the parity check, "" for none. null while the network is shown without edits, or
 * with a feature's edits, which are never checked.
 */
export function serializeActiveEdits({
  currentEdits,
  featureEdits,
  areEditsBypassed,
}: EditState): string | null {
  if (featureEdits.peek().length > 0) return null;
  const edits = activeEdits(currentEdits.peek().edits);
  if (edits.length === 0) return "";
  return areEditsBypassed.peek() ? null : JSON.stringify(edits, EDIT_FIELDS);
}

/** The field order, whichever side made the edit. */
const EDIT_FIELDS = Object.keys(RECORDS.get("Edit") ?? {});

/** A name that no edit has yet. */
export function uniqueEditName(edits: readonly Edit[], baseName: string): string {
  const taken = new Set(edits.map(({ name }) => name));
  let free = baseName;
  for (let number = 2; taken.has(free); number++) free = `${baseName}-${number}`;
  return free;
}
