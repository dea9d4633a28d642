// Blobs on their way from Python: their parts, what is asked for again, and when the wait ends.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { type BlobChunk, CHUNK_BYTES } from "../src/messages.ts";
import "./text_imports.ts";

const { BlobRequests: Blobs } = await import("../src/comm/blob_requests.ts");
const { BlobDownloads: Arrivals } = await import("../src/comm/blob_downloads.ts");
const { PageStore: Store } = await import("../src/engine/page_store.ts");

const QUIET_MS = 3_000;
const GIVE_UP_MS = 60_000;
const advanceTimers = (ms: number): void => mock.timers.tick(ms);
mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
mock.method(performance, "now", () => Date.now());

/** A blob of two parts and a bit, each byte of which says in which part it is. */
const BLOB_BYTES = 2 * CHUNK_BYTES + 3;
const makeChunk = (blob: string, k: number, bytes = BLOB_BYTES): BlobChunk => ({
  type: "blobchunk",
  blob,
  index: k,
  count: Math.ceil(bytes / CHUNK_BYTES),
  bytes,
});
const chunkData = (k: number, bytes = BLOB_BYTES): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Math.min(CHUNK_BYTES, bytes - k * CHUNK_BYTES)).fill(k + 1);

function createRequests() {
  const asked: [string, number[]][] = [];
  return { blobs: new Blobs((blob, parts) => asked.push([blob, parts])), asked };
}

test("a blob is put together of its parts, in whatever order they come", async () => {
  const { blobs: own, asked } = createRequests();
  const come = own.fetch("a");
  assert.equal(own.fetch("a"), come, "who asks a second time waits for the same");
  assert.deepEqual(asked, [["a", []]]);
  for (const k of [2, 0]) own.receive(makeChunk("a", k), [chunkData(k)]);
  own.receive(makeChunk("a", 0), [chunkData(0)]); // twice
  own.receive(makeChunk("a", 1), [chunkData(1).subarray(1)]); // too short
  own.receive(makeChunk("b", 1), [chunkData(1)]); // not wanted
  own.receive(makeChunk("a", 1), [chunkData(1)]);
  const whole = await come;
  assert.equal(whole.length, BLOB_BYTES);
  for (const [at, byte] of [[0, 1], [CHUNK_BYTES - 1, 1], [CHUNK_BYTES, 2], [2 * CHUNK_BYTES - 1, 2], [2 * CHUNK_BYTES, 3]])
    assert.equal(whole[at ?? 0], byte); // biome-ignore format: pairs
  const again = own.fetch("a");
  assert.notEqual(again, come, "it is kept nowhere");
  own.cancel();
  await assert.rejects(again);
});

test("missing parts are asked for once, and after a minute of silence the wait ends", async () => {
  const { blobs: own, asked } = createRequests();
  const come = own.fetch("a");
  own.receive(makeChunk("a", 1), [chunkData(1)]);
  advanceTimers(QUIET_MS);
  assert.equal(asked.length, 1, "it has only just been quiet for so long");
  advanceTimers(QUIET_MS);
  assert.deepEqual(asked.slice(1), [["a", [0, 2]]]);
  advanceTimers(QUIET_MS);
  assert.equal(asked.length, 2);
  own.receive(makeChunk("a", 0), [chunkData(0)]); // from here on the silence is counted
  advanceTimers(GIVE_UP_MS);
  own.receive(makeChunk("a", 2), [chunkData(2)]);
  assert.equal((await come).length, BLOB_BYTES, "at the limit it still comes");

  const late = own.fetch("b");
  advanceTimers(GIVE_UP_MS + QUIET_MS);
  await assert.rejects(late, /Python has not sent the data/);
});

test("one blob is dropped, or all are, and each says why", async () => {
  const { blobs: own } = createRequests();
  const [a, b] = [own.fetch("a"), own.fetch("b")];
  own.cancel("a");
  own.receive(makeChunk("b", 0, 5), [chunkData(0, 5)]);
  await assert.rejects(a, /request was cancelled/);
  assert.equal((await b).length, 5);
  const [c, d] = [own.fetch("c"), own.fetch("d")];
  own.cancel(undefined, "Python is gone");
  await assert.rejects(c, /Python is gone/);
  await assert.rejects(d, /Python is gone/);
});

function createDownloads(store = new Store()) {
  const asked: [string, number[]][] = [];
  const given: string[] = [];
  const own = new Arrivals(store, {
    requestChunks: (hash, parts) => asked.push([hash, parts]),
    onProgress: () => undefined,
    onTimeout: (text) => given.push(text),
  });
  const want = (sizes: Readonly<Record<string, number>>): void =>
    own.setRequested({ hashes: new Set(Object.keys(sizes)), sizes });
  return { own, store, asked, given, want };
}

test("a wanted blob is held once, besides other holders, and let go of with the next State", () => {
  const store = new Store();
  store.add("a", new Uint8Array(65 * 2 ** 20), 1); // by another Viewer
  const { own, want } = createDownloads(store);
  want({ a: 65 * 2 ** 20 });
  want({ a: 65 * 2 ** 20 });
  own.retainRequested();
  assert.equal(own.progress, undefined);
  store.release("a"); // the other Viewer closes
  assert.ok(store.has("a"));
  want({});
  assert.equal(store.has("a"), false);
});

test("all that is held is let go of where a view goes, and found again by the next one", () => {
  const { own, store, want } = createDownloads();
  want({ a: 5 });
  own.receive(makeChunk("a", 0, 5), [chunkData(0, 5)]);
  own.releaseAll();
  assert.deepEqual(own.progress, { done: 0, total: 5 });
  own.retainRequested();
  assert.equal(own.progress, undefined);
  own.releaseAll();
  store.add("b", new Uint8Array(64 * 2 ** 20), 0);
  own.retainRequested();
  assert.deepEqual(own.progress, { done: 0, total: 5 }, "it had no room any more");
});

test("chunks of a blob that the next State wants too are kept", () => {
  const { own, want } = createDownloads();
  want({ a: BLOB_BYTES });
  own.receive(makeChunk("a", 0), [chunkData(0)]);
  want({ a: BLOB_BYTES, b: 5 });
  for (const k of [1, 2]) own.receive(makeChunk("a", k), [chunkData(k)]);
  assert.deepEqual(own.progress, { done: BLOB_BYTES, total: BLOB_BYTES + 5 });
});

test("a blob of one chunk can be read as floats, wherever its buffer begins", () => {
  const numbers = Float32Array.of(1, -2, 3);
  for (const begin of [0, 1, 4]) {
    const memory = new Uint8Array(begin + numbers.byteLength);
    memory.set(new Uint8Array(numbers.buffer), begin);
    const { own, store, want } = createDownloads();
    want({ a: 12 });
    own.receive(makeChunk("a", 0, 12), [new DataView(memory.buffer, begin)]);
    const data = store.get("a");
    assert.ok(data);
    assert.deepEqual(new Float32Array(data.buffer, data.byteOffset, 3), numbers);
  }
});

test("a part of the wrong size, of another blob or behind the last one changes nothing", () => {
  const { own, want } = createDownloads();
  const warned = mock.method(console, "warn", () => undefined);
  want({ a: BLOB_BYTES });
  own.receive(makeChunk("b", 0), [chunkData(0)]);
  own.receive(makeChunk("a", 0, BLOB_BYTES + 1), [chunkData(0)]);
  own.receive(makeChunk("a", 3), [new Uint8Array()]);
  own.receive({ ...makeChunk("a", 0), count: 2 }, [chunkData(0)]);
  own.receive(makeChunk("a", 0), [chunkData(2)]);
  assert.deepEqual(own.progress, { done: 0, total: BLOB_BYTES });
  for (const k of [0, 2]) own.receive(makeChunk("a", k), [chunkData(k)]);
  assert.deepEqual(own.progress, { done: BLOB_BYTES - CHUNK_BYTES, total: BLOB_BYTES });
  own.receive(makeChunk("a", 1), [chunkData(1)]);
  assert.equal(own.progress, undefined);
  warned.mock.restore();
});

test("a blob that the page had said to have is asked for where it was thrown out", () => {
  const store = new Store();
  store.add("a", new Uint8Array(5), 0);
  const { own, asked, want } = createDownloads(store);
  assert.deepEqual(own.hashesKnownToPython, ["a"]);
  store.add("b", new Uint8Array(64 * 2 ** 20), 0);
  assert.equal(store.has("a"), false);
  want({ a: 5 });
  assert.deepEqual(asked, [["a", []]]);
});

test("each blob that is missing is asked for again once, and is given up after a minute", () => {
  const { own, asked, given, want } = createDownloads();
  want({ a: BLOB_BYTES, b: 5 });
  own.receive(makeChunk("a", 1), [chunkData(1)]);
  own.startRetries();
  advanceTimers(QUIET_MS);
  assert.deepEqual(asked, [
    ["a", [0, 2]],
    ["b", []],
  ]);
  advanceTimers(QUIET_MS);
  assert.equal(asked.filter(([hash]) => hash === "a").length, 1);
  advanceTimers(GIVE_UP_MS - 3 * QUIET_MS);
  assert.deepEqual(given, []);
  advanceTimers(QUIET_MS);
  assert.match(given[0] ?? "", /^2 data blocks/);
  own.stop();
});
