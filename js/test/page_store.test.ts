// The page's store of blobs: who holds one, and what of the others stays for the next run of the cell.
import assert from "node:assert/strict";
import test from "node:test";
import "./text_imports.ts";

const { PageStore: Store, pageStore } = await import("../src/engine/page_store.ts");

const MIB = 2 ** 20;
const makeBytes = (count: number): Uint8Array<ArrayBuffer> => new Uint8Array(count);

/** A store with blobs without a holder, in this order, of so many bytes each. */
function unusedBlobs(sizes: Readonly<Record<string, number>>) {
  const store = new Store();
  for (const [hash, size] of Object.entries(sizes)) {
    store.add(hash, makeBytes(size), 1);
    store.release(hash);
  }
  return store;
}

test("a blob that comes a second time has the holders of both, and its first bytes", () => {
  const store = new Store();
  const first = makeBytes(65 * MIB);
  store.add("a", first, 1);
  store.add("a", makeBytes(65 * MIB), 2);
  assert.equal(store.get("a"), first);
  store.release("a");
  store.release("a");
  assert.ok(store.has("a"), "one of three still holds it");
  store.release("a");
  assert.equal(store.has("a"), false);
});

test("a blob stays until each hold is released", () => {
  const store = new Store();
  store.add("a", makeBytes(65 * MIB), 1);
  assert.ok(store.retain("a"));
  store.release("a");
  assert.ok(store.has("a"));
  store.release("a");
  assert.equal(store.has("a"), false);
  assert.equal(store.retain("a"), false);
  store.release("a"); // of what has gone
  store.add("a", makeBytes(1), 0);
  assert.ok(store.retain("a"), "a new one counts from its own holders");
  store.release("a");
  assert.ok(store.has("a"));
});

test("blobs without a holder stay up to 64 MiB, those that were used last", () => {
  const full = unusedBlobs({ a: 32 * MIB, b: 32 * MIB });
  assert.deepEqual(full.hashes, ["a", "b"]);
  full.add("held", makeBytes(65 * MIB), 1);
  assert.deepEqual(full.hashes, ["a", "b", "held"], "what is held counts nothing");
  full.add("c", makeBytes(1), 1);
  full.release("c");
  assert.deepEqual(full.hashes, ["b", "held", "c"]);

  const used = unusedBlobs({ a: 32 * MIB, b: 32 * MIB });
  used.retain("a");
  used.release("a"); // used once more
  used.add("c", makeBytes(1), 0);
  assert.deepEqual(used.hashes, ["a", "c"]);
});

test("of several blobs only as many go as make room", () => {
  const store = unusedBlobs({ a: MIB, b: MIB, c: 62 * MIB });
  store.add("d", makeBytes(MIB), 0);
  assert.deepEqual(store.hashes, ["b", "c", "d"]);
});

test("an exported page's inputs, whose names are no hashes, go with their last holder", () => {
  const store = unusedBlobs({ "input 0": 4, hash: 4 });
  assert.deepEqual(store.hashes, ["hash"]);
  store.add("input 1", makeBytes(4), 1);
  store.retain("input 1");
  store.release("input 1");
  assert.ok(store.has("input 1"));
});

test("all bundles of one page share a store", () => {
  assert.equal(pageStore(), pageStore());
});
