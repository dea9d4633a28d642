// What is edited: bends, injected and frozen values, as they are now and as they were; features/edits/store.py in Python is the same.
import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { MOST_STEPS } from "../messages.ts";
import { type Edit, RECORDS } from "../plan/edits.ts";

/** What is edited at one time: the edits, and how many of the weights' edits are made. */
export interface EditSnapshot {
  readonly edits: readonly Edit[];
  readonly weights: number;
}

/** Other numbers in a parameter. */
export interface WeightEdit {
  /** The parameter's key. */
  readonly name: string;
  /** Of the first of them among its elements, row-major. */
  readonly index: number;
  readonly values: readonly number[];
  /** Edits of one step are undone together. */
  readonly step: string;
}

export interface EditState {
  readonly presentEdits: Signal<EditSnapshot>;
  /** Steps that can be undone, and those that were. */
  readonly pastEdits: Signal<readonly EditSnapshot[]>;
  readonly futureEdits: Signal<readonly EditSnapshot[]>;
  /** The network is shown without its edits, as long as somebody holds a key. */
  readonly withoutEdits: Signal<boolean>;
  /** Why the last change of the edits could not be; "" when it could. */
  readonly editError: Signal<string>;
  /** Edits of a feature: not the reader's own, and no step to undo. The parity check makes none meanwhile. */
  readonly featureEdits: Signal<readonly Edit[]>;
  /** All that the engine is given. */
  readonly engineEdits: ReadonlySignal<readonly Edit[]>;
  /** Changes a weight, by way of Python, which has the model; null where there is none. */
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

/** The last step's name, and what it made: what Python has changed since is no part of it. */
const lastSteps = new WeakMap<Signal<EditSnapshot>, readonly [step: string, made: string]>();

/** Makes these the edits of now. Changes of one `step` that follow each other are undone together. */
export function setEdits(state: EditState, edits: readonly Edit[], step = ""): void {
  const before = state.presentEdits.peek();
  const after: EditSnapshot = { ...before, edits };
  const [last, made] = lastSteps.get(state.presentEdits) ?? [];
  const joins = step !== "" && step === last && JSON.stringify(before) === made;
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

/** Those that change something. */
export const activeEdits = (edits: readonly Edit[]): readonly Edit[] =>
  edits.filter(({ enabled, mix, channels }) => enabled && mix > 0 && channels?.length !== 0);

/** Whether something is bent that only a graphics device can, so that no framework has the same. */
export const hasGpuOnlyEdits = (edits: readonly Edit[]): boolean =>
  activeEdits(edits).some(({ transform }) => transform === "glsl");

/**
 * The active edits as the parity check is told them, "" for none; null while the network is shown without them, or
 * with unlisted ones, of which nothing is checked.
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

/** In this order, whoever made them. */
const EDIT_FIELDS = Object.keys(RECORDS.get("Edit") ?? {});

/** A name that no edit has yet. */
export function uniqueName(edits: readonly Edit[], like: string): string {
  const taken = new Set(edits.map(({ name }) => name));
  let free = like;
  for (let number = 2; taken.has(free); number++) free = `${like}-${number}`;
  return free;
}
