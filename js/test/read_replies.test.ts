// Python's reads: an answer goes in parts, is kept for parts that got lost, and is forgotten.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import type { Engine } from "../src/engine/types.ts";
import { CHUNK_BYTES, type Read } from "../src/messages.ts";
import { beforeEditsKey } from "../src/plan/derived_values.ts";
import "./text_imports.ts";

const { ReadReplies: Answers } = await import("../src/comm/read_replies.ts");

const KEEP_MS = 60_000;
const NUMBER_COUNT = CHUNK_BYTES / 4 + 1;

const makeRead = (id: string, more: Partial<Read> = {}): Read => ({
  type: "read",
  id,
  page: "",
  revision: 0,
  keys: ["a", "b"],
  missing_chunks: [],
  before_edits: false,
  is_screenshot: false,
  ...more,
});

// An answer's timer of a minute would keep the process.
beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

/** An engine whose values say by their numbers which they are; `b` is a part and a bit long. */
const askedKeys: string[] = [];
const engine = {
  read: async (key: string) => {
    askedKeys.push(key);
    if (key !== "b") return new Float32Array([1]);
    return new Float32Array(NUMBER_COUNT).fill(2);
  },
} as unknown as Engine;

function createReplies() {
  const sent: (readonly [key: number, part: number, count: number, bytes: number])[] = [];
  const own = new Answers({
    send: ({ key, chunk, count }, data) => sent.push([key, chunk, count, data.byteLength]),
    onProgress: () => undefined,
    captureView: async () => new Uint8Array([7, 8]),
  });
  return { own, sent, take: () => sent.splice(0) };
}
const BOTH_KEYS = [
  [0, 0, 1, 4],
  [1, 0, 2, CHUNK_BYTES],
  [1, 1, 2, 4],
];

test("a read is answered in parts, and lost ones again until Python has all", async () => {
  const { own, take } = createReplies();
  const one = makeRead("r");
  assert.equal(own.receive(one), true);
  assert.equal(own.receive(one), false, "a second time it is no new one");
  await own.readAndReply(engine, one, 0);
  assert.deepEqual(take(), BOTH_KEYS);
  assert.equal(own.receive(makeRead("r", { missing_chunks: [[1, 1]] })), false);
  assert.deepEqual(take(), [BOTH_KEYS[2]]);
  own.receive(one);
  assert.deepEqual(take(), BOTH_KEYS, "all, where none are listed");
  own.finish("r");
  assert.equal(own.receive(makeRead("r")), true, "from then on the same id is a new read");
});

test("parts that are asked for during an answer come behind it", async () => {
  const { own, take } = createReplies();
  const one = makeRead("r");
  own.receive(one);
  const answering = own.readAndReply(engine, one, 0);
  assert.equal(own.receive(makeRead("r", { missing_chunks: [[0, 0]] })), false);
  await answering;
  assert.deepEqual(take(), [...BOTH_KEYS, BOTH_KEYS[0]]);
});

test("a read of a later revision waits for its State", async () => {
  const { own, sent } = createReplies();
  const one = makeRead("r", { revision: 3 });
  own.receive(one);
  await own.readAndReply(engine, one, 2);
  assert.deepEqual([sent, own.unansweredReads], [[], [one]]);
  await own.readAndReply(engine, one, 3);
  assert.deepEqual([sent, own.unansweredReads], [BOTH_KEYS, []]);
});

test("an answer that is not waited for any more ends at the next value", async () => {
  const { own, take } = createReplies();
  const one = makeRead("r");
  own.receive(one);
  const answering = own.readAndReply(engine, one, 0);
  own.finish("r");
  await answering;
  assert.deepEqual(take(), []);
  own.receive(makeRead("s"));
  own.clear();
  assert.deepEqual(own.unansweredReads, []);
});

test("a read before the edits asks for values before these, and one of the screen for a picture", async () => {
  const { own, take } = createReplies();
  askedKeys.length = 0;
  const one = makeRead("r", { keys: ["a"], before_edits: true });
  own.receive(one);
  await own.readAndReply(engine, one, 0);
  assert.deepEqual(askedKeys, [beforeEditsKey("a")]);
  take();
  const picture = makeRead("p", { keys: [], is_screenshot: true });
  own.receive(picture);
  await own.readAndReply(engine, picture, 0);
  assert.deepEqual(take(), [[0, 0, 1, 2]]);
});

test("an answer is kept for a minute", async () => {
  const { own, take } = createReplies();
  const one = makeRead("r", { keys: ["a"] });
  own.receive(one);
  await own.readAndReply(engine, one, 0);
  mock.timers.tick(KEEP_MS - 1);
  assert.equal(own.receive(one), false);
  assert.equal(take().length, 2);
  mock.timers.tick(1);
  assert.equal(own.receive(one), true);
});
