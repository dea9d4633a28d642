// The edits (bends, injected and frozen values) and their undo history; the same as features/edits/store.py in Python.
import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { MOST_STEPS } from "../messages.ts";
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
  readonly presentEdits: Signal<EditSnapshot>;
  /** Undo stack, and redo stack below. */
  readonly pastEdits: Signal<readonly EditSnapshot[]>;
  readonly futureEdits: Signal<readonly EditSnapshot[]>;
  /** Whether the network is shown without its edits, while the user holds a key. */
  readonly withoutEdits: Signal<boolean>;
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
  const presentEdits = signal<EditSnapshot>({ edits: [], weights: 0 });
  const featureEdits = signal<readonly Edit[]>([]);
  const engineEdits = computed(() =>
    featureEdits.value.length > 0
      ? [...featureEdits.value, ...presentEdits.value.edits]
      : presentEdits.value.edits,
  );
  return { presentEdits, featureEdits, engineEdits, ...createHistorySignals() };
};

const createHistorySignals = () => ({
  pastEdits: signal<readonly EditSnapshot[]>([]),
  futureEdits: signal<readonly EditSnapshot[]>([]),
  withoutEdits: signal(false),
  editError: signal(""),
  setWeight: signal<((edit: WeightEdit) => void) | null>(null),
});

/**
 * The last step's name and the edits it produced. If Python has changed the edits since, the next change starts a new
 * step.
 */
const lastSteps = new WeakMap<Signal<EditSnapshot>, readonly [step: string, made: string]>();

/** Set the current edits. Consecutive changes with the same `step` are undone together. */
export function setEdits(state: EditState, edits: readonly Edit[], step = ""): void {
  const before = state.presentEdits.peek();
  const after: EditSnapshot = { ...before, edits };
  const [last, lastResult] = lastSteps.get(state.presentEdits) ?? [];
  const joins = step !== "" && step === last && JSON.stringify(before) === lastResult;
  lastSteps.set(state.presentEdits, [step, JSON.stringify(after)]);
  batch(() => {
    if (!joins) state.pastEdits.value = [...state.pastEdits.peek(), before].slice(-MOST_STEPS);
    state.futureEdits.value = [];
    state.presentEdits.value = after;
  });
}

export const undoEdits = (state: EditState): void =>
  moveSnapshot(state, state.pastEdits, state.futureEdits);
export const redoEdits = (state: EditState): void =>
  moveSnapshot(state, state.futureEdits, state.pastEdits);

function moveSnapshot(
  state: EditState,
  source: Signal<readonly EditSnapshot[]>,
  target: Signal<readonly EditSnapshot[]>,
): void {
  const moment = source.peek().at(-1);
  if (moment === undefined) return;
  lastSteps.delete(state.presentEdits);
  batch(() => {
    target.value = [...target.peek(), state.presentEdits.peek()];
    source.value = source.peek().slice(0, -1);
    state.presentEdits.value = moment;
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
  presentEdits,
  featureEdits,
  withoutEdits,
}: EditState): string | null {
  if (featureEdits.peek().length > 0) return null;
  const edits = activeEdits(presentEdits.peek().edits);
  if (edits.length === 0) return "";
  return withoutEdits.peek() ? null : JSON.stringify(edits, EDIT_FIELDS);
}

/** The field order, whichever side made the edit. */
const EDIT_FIELDS = Object.keys(RECORDS.get("Edit") ?? {});

/** A name that no edit has yet. */
export function uniqueName(edits: readonly Edit[], like: string): string {
  const taken = new Set(edits.map(({ name }) => name));
  let free = like;
  for (let number = 2; taken.has(free); number++) free = `${like}-${number}`;
  return free;
}
