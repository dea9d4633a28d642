// The edits of one page: what can be undone, which edits act, and the injected arrays that they keep.
import assert from "node:assert/strict";
import test from "node:test";
import { MAX_UNDO_STEPS } from "../src/messages.ts";
import type { Edit } from "../src/plan/edits.ts";
import type { Session } from "../src/plan/runtime.ts";
import {
  activeEdits,
  editState,
  hasGpuOnlyEdits,
  redoEdits,
  serializeActiveEdits,
  setEdits,
  undoEdits,
  uniqueEditName,
} from "../src/state/edits.ts";
import { PLAIN_EDIT } from "./plain_edit.ts";
import "./text_imports.ts";

const { RequestedEdits: WantedEdits } = await import("../src/engine/requested_edits.ts");
const { PageStore: Store } = await import("../src/engine/page_store.ts");

const makeEdit = (name: string, more: Partial<Edit> = {}): Edit => ({
  ...PLAIN_EDIT,
  layer: "conv",
  name,
  transform: "multiply",
  parameters: [2],
  ...more,
});

/** A state behind so many steps: after step k the only edit is called k. */
function stateAfter(steps: number) {
  const state = editState();
  for (let k = 1; k <= steps; k++) setEdits(state, [makeEdit(`${k}`)]);
  return state;
}
const currentEditName = (state: ReturnType<typeof editState>): string | undefined =>
  state.currentEdits.peek().edits[0]?.name;

test("so many steps as the limit says can be undone, down to the beginning", () => {
  const state = stateAfter(MAX_UNDO_STEPS);
  assert.equal(state.undoStack.peek().length, MAX_UNDO_STEPS);
  for (let k = 0; k < MAX_UNDO_STEPS; k++) undoEdits(state);
  assert.equal(currentEditName(state), undefined);
  assert.equal(state.redoStack.peek().length, MAX_UNDO_STEPS);
  for (let k = 0; k < MAX_UNDO_STEPS; k++) redoEdits(state);
  assert.equal(currentEditName(state), `${MAX_UNDO_STEPS}`);
});

test("beyond the limit the oldest steps go, and the newest are undone first", () => {
  const state = stateAfter(MAX_UNDO_STEPS + 2);
  assert.equal(state.undoStack.peek().length, MAX_UNDO_STEPS);
  undoEdits(state);
  assert.equal(currentEditName(state), `${MAX_UNDO_STEPS + 1}`);
  for (let k = 0; k < MAX_UNDO_STEPS; k++) undoEdits(state);
  assert.equal(currentEditName(state), "2");
  undoEdits(state); // nothing is left
  assert.equal(currentEditName(state), "2");
});

test("a change behind an undo takes the place of what was undone", () => {
  const state = stateAfter(3);
  undoEdits(state);
  undoEdits(state);
  setEdits(state, [makeEdit("other")]);
  redoEdits(state);
  assert.equal(currentEditName(state), "other");
  assert.deepEqual([state.undoStack.peek().length, state.redoStack.peek().length], [2, 0]);
});

test("an undo keeps how many of the weights' edits are made at each step", () => {
  const state = editState();
  state.currentEdits.value = { edits: [], weights: 3 };
  setEdits(state, [makeEdit("a")]);
  assert.equal(state.currentEdits.peek().weights, 3);
  state.currentEdits.value = { ...state.currentEdits.peek(), weights: 4 };
  undoEdits(state);
  assert.equal(state.currentEdits.peek().weights, 3);
  redoEdits(state);
  assert.equal(state.currentEdits.peek().weights, 4);
});

test("an edit acts unless it is off, mixed with 0 or of no channel", () => {
  const edits = [
    makeEdit("all"),
    makeEdit("off", { enabled: false }),
    makeEdit("unmixed", { mix: 0 }),
    makeEdit("hardly", { mix: 2 ** -20 }),
    makeEdit("none", { channels: [] }),
    makeEdit("first", { channels: [0] }),
  ];
  assert.deepEqual(
    activeEdits(edits).map(({ name }) => name),
    ["all", "hardly", "first"],
  );
  assert.ok(hasGpuOnlyEdits([makeEdit("own", { transform: "glsl" })]));
  assert.ok(
    !hasGpuOnlyEdits([makeEdit("own", { transform: "glsl", enabled: false }), makeEdit("all")]),
  );
});

test("the parity check has the edits that act, and nothing while others are shown", () => {
  const state = editState();
  assert.equal(serializeActiveEdits(state), "");
  state.areEditsBypassed.value = true;
  assert.equal(serializeActiveEdits(state), "", "without any edit nothing else is shown");
  setEdits(state, [makeEdit("a"), makeEdit("b", { enabled: false })]);
  assert.equal(serializeActiveEdits(state), null);
  state.areEditsBypassed.value = false;
  assert.deepEqual(JSON.parse(serializeActiveEdits(state) ?? ""), [makeEdit("a")]);
  // From either side, and with its fields in any order.
  const turned = Object.fromEntries(Object.entries(makeEdit("a")).reverse()) as unknown as Edit;
  const before = serializeActiveEdits(state);
  setEdits(state, [turned]);
  assert.equal(serializeActiveEdits(state), before);
  state.featureEdits.value = [makeEdit("code", { skips_upstream: true })];
  assert.equal(serializeActiveEdits(state), null);
  assert.deepEqual(
    state.engineEdits.peek().map(({ name }) => name),
    ["code", "a"],
  );
});

test("a free name has the next number that no edit has", () => {
  assert.equal(uniqueEditName([], "blur"), "blur");
  assert.equal(uniqueEditName([makeEdit("blur")], "blur"), "blur-2");
  assert.equal(
    uniqueEditName([makeEdit("blur"), makeEdit("blur-2"), makeEdit("blur-4")], "blur"),
    "blur-3",
  );
});

const MIB = 2 ** 20;
const makeInjection = (array_hash: string, channels: readonly number[] | null = null): Edit =>
  makeEdit("injection", { transform: "inject", array_hash, channels });

/** A session with one layer that records its edits. */
function layerSession(nchw: readonly [number, number, number, number]) {
  const given: (readonly Edit[])[] = [];
  const session = {
    plan: { values: [{ key: "conv", edit_pass: 0, nchw }] },
    setEdits: async (edits: readonly Edit[]) => {
      given.push(edits);
    },
  };
  return { session: session as unknown as Session, given };
}

test("an array of the chosen channels' size is injected, and one of another size is left out", async () => {
  const store = new Store();
  store.add("two channels", new Uint8Array(2 * 2 * 3 * 5 * 4), 1);
  store.add("all channels", new Uint8Array(2 * 4 * 3 * 5 * 4), 1);
  const left: (readonly Edit[])[] = [];
  const wanted = new WantedEdits(store, (edits) => left.push(edits));
  const { session, given } = layerSession([2, 4, 3, 5]);
  const [two, all] = [makeInjection("two channels", [1, 3]), makeInjection("all channels")];
  wanted.request([two, all]);
  assert.equal(await wanted.applyTo(session, false), true);
  assert.deepEqual(given, [[two, all]]);
  assert.deepEqual(left, []);
  const wrong = makeInjection("all channels", [1, 3]);
  wanted.request([two, wrong]);
  await wanted.applyTo(session, true);
  assert.deepEqual(given.slice(1), [[two]]);
  assert.deepEqual(left, [[wrong]]);
});

test("an array stays in the page's store only while an edit injects it", () => {
  const store = new Store();
  const wanted = new WantedEdits(store, () => undefined);
  const put = (hash: string) => store.add(hash, new Uint8Array(65 * MIB), 1); // beyond the cache
  put("first");
  wanted.request([makeInjection("first")]);
  store.release("first"); // its first holder
  assert.deepEqual(store.hashes, ["first"]);
  put("second");
  wanted.request([makeInjection("second")]);
  store.release("second");
  assert.deepEqual(store.hashes, ["second"]);
  wanted.dispose();
  assert.deepEqual(store.hashes, []);
});
