// The edits of one page: what can be undone, which edits act, and the injected arrays that they keep.
import assert from "node:assert/strict";
import test from "node:test";
import { MOST_STEPS } from "../src/messages.ts";
import type { Edit } from "../src/plan/edits.ts";
import type { Session } from "../src/plan/runtime.ts";
import {
  active,
  change,
  editState,
  freeName,
  redo,
  said,
  undo,
  unlike,
} from "../src/state/edits.ts";
import { PLAIN_EDIT } from "./plain_edit.ts";
import "./text_imports.ts";

const { WantedEdits } = await import("../src/engine/edits.ts");
const { Store } = await import("../src/engine/store.ts");

const edit = (name: string, more: Partial<Edit> = {}): Edit => ({
  ...PLAIN_EDIT,
  layer: "conv",
  name,
  transform: "multiply",
  parameters: [2],
  ...more,
});

/** A state behind so many steps: after step k the only edit is called k. */
function after(steps: number) {
  const state = editState();
  for (let k = 1; k <= steps; k++) change(state, [edit(`${k}`)]);
  return state;
}
const now = (state: ReturnType<typeof editState>): string | undefined =>
  state.edited.peek().edits[0]?.name;

test("so many steps as the limit says can be undone, down to the beginning", () => {
  const state = after(MOST_STEPS);
  assert.equal(state.past.peek().length, MOST_STEPS);
  for (let k = 0; k < MOST_STEPS; k++) undo(state);
  assert.equal(now(state), undefined);
  assert.equal(state.future.peek().length, MOST_STEPS);
  for (let k = 0; k < MOST_STEPS; k++) redo(state);
  assert.equal(now(state), `${MOST_STEPS}`);
});

test("beyond the limit the oldest steps go, and the newest are undone first", () => {
  const state = after(MOST_STEPS + 2);
  assert.equal(state.past.peek().length, MOST_STEPS);
  undo(state);
  assert.equal(now(state), `${MOST_STEPS + 1}`);
  for (let k = 0; k < MOST_STEPS; k++) undo(state);
  assert.equal(now(state), "2");
  undo(state); // nothing is left
  assert.equal(now(state), "2");
});

test("a change behind an undo takes the place of what was undone", () => {
  const state = after(3);
  undo(state);
  undo(state);
  change(state, [edit("other")]);
  redo(state);
  assert.equal(now(state), "other");
  assert.deepEqual([state.past.peek().length, state.future.peek().length], [2, 0]);
});

test("an undo keeps how many of the weights' edits are made at each step", () => {
  const state = editState();
  state.edited.value = { edits: [], weights: 3 };
  change(state, [edit("a")]);
  assert.equal(state.edited.peek().weights, 3);
  state.edited.value = { ...state.edited.peek(), weights: 4 };
  undo(state);
  assert.equal(state.edited.peek().weights, 3);
  redo(state);
  assert.equal(state.edited.peek().weights, 4);
});

test("an edit acts unless it is off, mixed with 0 or of no channel", () => {
  const edits = [
    edit("all"),
    edit("off", { enabled: false }),
    edit("unmixed", { mix: 0 }),
    edit("hardly", { mix: 2 ** -20 }),
    edit("none", { channels: [] }),
    edit("first", { channels: [0] }),
  ];
  assert.deepEqual(
    active(edits).map(({ name }) => name),
    ["all", "hardly", "first"],
  );
  assert.ok(unlike([edit("own", { transform: "glsl" })]));
  assert.ok(!unlike([edit("own", { transform: "glsl", enabled: false }), edit("all")]));
});

test("the parity check has the edits that act, and nothing while others are shown", () => {
  const state = editState();
  assert.equal(said(state), "");
  state.withoutEdits.value = true;
  assert.equal(said(state), "", "without any edit nothing else is shown");
  change(state, [edit("a"), edit("b", { enabled: false })]);
  assert.equal(said(state), null);
  state.withoutEdits.value = false;
  assert.deepEqual(JSON.parse(said(state) ?? ""), [edit("a")]);
  // From either side, and with its fields in any order.
  const turned = Object.fromEntries(Object.entries(edit("a")).reverse()) as unknown as Edit;
  const before = said(state);
  change(state, [turned]);
  assert.equal(said(state), before);
  state.unlisted.value = [edit("code", { skips: true })];
  assert.equal(said(state), null);
  assert.deepEqual(
    state.acting.peek().map(({ name }) => name),
    ["code", "a"],
  );
});

test("a free name has the next number that no edit has", () => {
  assert.equal(freeName([], "blur"), "blur");
  assert.equal(freeName([edit("blur")], "blur"), "blur-2");
  assert.equal(freeName([edit("blur"), edit("blur-2"), edit("blur-4")], "blur"), "blur-3");
});

const MIB = 2 ** 20;
const injection = (array: string, channels: readonly number[] | null = null): Edit =>
  edit("injection", { transform: "inject", array, channels });

/** A session with one layer that records its edits. */
function layerSession(nchw: readonly [number, number, number, number]) {
  const given: (readonly Edit[])[] = [];
  const session = {
    plan: { values: [{ key: "conv", after: 0, nchw }] },
    setEdits: async (edits: readonly Edit[]) => {
      given.push(edits);
    },
  };
  return { session: session as unknown as Session, given };
}

test("an array of the chosen channels' size is injected, and one of another size is left out", async () => {
  const store = new Store();
  store.put("two channels", new Uint8Array(2 * 2 * 3 * 5 * 4), 1);
  store.put("all channels", new Uint8Array(2 * 4 * 3 * 5 * 4), 1);
  const left: (readonly Edit[])[] = [];
  const wanted = new WantedEdits(store, (edits) => left.push(edits));
  const { session, given } = layerSession([2, 4, 3, 5]);
  const [two, all] = [injection("two channels", [1, 3]), injection("all channels")];
  wanted.want([two, all]);
  assert.equal(await wanted.give(session, false), true);
  assert.deepEqual(given, [[two, all]]);
  assert.deepEqual(left, []);
  const wrong = injection("all channels", [1, 3]);
  wanted.want([two, wrong]);
  await wanted.give(session, true);
  assert.deepEqual(given.slice(1), [[two]]);
  assert.deepEqual(left, [[wrong]]);
});

test("an array stays in the page's store only while an edit injects it", () => {
  const store = new Store();
  const wanted = new WantedEdits(store, () => undefined);
  const put = (hash: string) => store.put(hash, new Uint8Array(65 * MIB), 1); // beyond the cache
  put("first");
  wanted.want([injection("first")]);
  store.release("first"); // its first holder
  assert.deepEqual(store.hashes, ["first"]);
  put("second");
  wanted.want([injection("second")]);
  store.release("second");
  assert.deepEqual(store.hashes, ["second"]);
  wanted.dispose();
  assert.deepEqual(store.hashes, []);
});
