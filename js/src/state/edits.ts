// What is edited: bends, injected and frozen values, as they are now and as they were; features/edits/store.py in Python is the same.
import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { MOST_STEPS } from "../messages.ts";
import { type Edit, RECORDS } from "../plan/edits.ts";

/** What is edited at one time: the edits, and how many of the weights' edits are made. */
export interface Moment {
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
  readonly edited: Signal<Moment>;
  /** Steps that can be undone, and those that were. */
  readonly past: Signal<readonly Moment[]>;
  readonly future: Signal<readonly Moment[]>;
  /** The network is shown without its edits, as long as somebody holds a key. */
  readonly withoutEdits: Signal<boolean>;
  /** Why the last change of the edits could not be; "" when it could. */
  readonly editTrouble: Signal<string>;
  /** Edits of a feature: not the reader's own, and no step to undo. The parity check makes none meanwhile. */
  readonly unlisted: Signal<readonly Edit[]>;
  /** All that the engine is given. */
  readonly acting: ReadonlySignal<readonly Edit[]>;
  /** Changes a weight, by way of Python, which has the model; null where there is none. */
  readonly setWeight: Signal<((edit: WeightEdit) => void) | null>;
}

export const editState = (): EditState => {
  const edited = signal<Moment>({ edits: [], weights: 0 });
  const unlisted = signal<readonly Edit[]>([]);
  const acting = computed(() =>
    unlisted.value.length > 0 ? [...unlisted.value, ...edited.value.edits] : edited.value.edits,
  );
  return { edited, unlisted, acting, ...rest() };
};

const rest = () => ({
  past: signal<readonly Moment[]>([]),
  future: signal<readonly Moment[]>([]),
  withoutEdits: signal(false),
  editTrouble: signal(""),
  setWeight: signal<((edit: WeightEdit) => void) | null>(null),
});

/** The last step's name, and what it made: what Python has changed since is no part of it. */
const steps = new WeakMap<Signal<Moment>, readonly [step: string, made: string]>();

/** Makes these the edits of now. Changes of one `step` that follow each other are undone together. */
export function change(state: EditState, edits: readonly Edit[], step = ""): void {
  const before = state.edited.peek();
  const after: Moment = { ...before, edits };
  const [last, made] = steps.get(state.edited) ?? [];
  const joins = step !== "" && step === last && JSON.stringify(before) === made;
  steps.set(state.edited, [step, JSON.stringify(after)]);
  batch(() => {
    if (!joins) state.past.value = [...state.past.peek(), before].slice(-MOST_STEPS);
    state.future.value = [];
    state.edited.value = after;
  });
}

export const undo = (state: EditState): void => go(state, state.past, state.future);
export const redo = (state: EditState): void => go(state, state.future, state.past);

function go(
  state: EditState,
  source: Signal<readonly Moment[]>,
  target: Signal<readonly Moment[]>,
): void {
  const moment = source.peek().at(-1);
  if (moment === undefined) return;
  steps.delete(state.edited);
  batch(() => {
    target.value = [...target.peek(), state.edited.peek()];
    source.value = source.peek().slice(0, -1);
    state.edited.value = moment;
  });
}

/** Those that change something. */
export const active = (edits: readonly Edit[]): readonly Edit[] =>
  edits.filter(({ enabled, mix, channels }) => enabled && mix > 0 && channels?.length !== 0);

/** Whether something is bent that only a graphics device can, so that no framework has the same. */
export const unlike = (edits: readonly Edit[]): boolean =>
  active(edits).some(({ transform }) => transform === "glsl");

/**
 * The active edits as the parity check is told them, "" for none; null while the network is shown without them, or
 * with unlisted ones, of which nothing is checked.
 */
export function said({ edited, unlisted, withoutEdits }: EditState): string | null {
  if (unlisted.peek().length > 0) return null;
  const edits = active(edited.peek().edits);
  if (edits.length === 0) return "";
  return withoutEdits.peek() ? null : JSON.stringify(edits, FIELDS);
}

/** In this order, whoever made them. */
const FIELDS = Object.keys(RECORDS.get("Edit") ?? {});

/** A name that no edit has yet. */
export function freeName(edits: readonly Edit[], like: string): string {
  const taken = new Set(edits.map(({ name }) => name));
  let free = like;
  for (let number = 2; taken.has(free); number++) free = `${like}-${number}`;
  return free;
}
