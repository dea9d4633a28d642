// Code from Python: when a page asks for a piece, what it takes, and when the wait ends.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { crc32, gzipSync } from "node:zlib";
import {
  type CodeChannel,
  downloadCode,
  loadedModule,
  receiveCodeChunk,
} from "../src/code_download.ts";

mock.timers.enable({ apis: ["setTimeout", "Date"], now: 100_000 });
mock.method(performance, "now", () => Date.now());
const encodeText = (whole: string) => new TextEncoder().encode(whole);
const createdBlobs: Blob[] = [];
mock.method(URL, "createObjectURL", (file: Blob) => {
  createdBlobs.push(file);
  return `data:text/javascript,export const is = ${createdBlobs.length}`;
});

/** After this, promises that are settled have called back. */
const flushPromises = async (): Promise<void> => {
  for (let k = 0; k < 20; k++) await Promise.resolve();
};
const advanceTimers = async (ms: number): Promise<void> => {
  for (let left = ms; left > 0; left -= 500) {
    mock.timers.tick(Math.min(500, left));
    await flushPromises();
  }
};
const codeName = (code: string) => `code ${crc32(encodeText(code)).toString(16).padStart(8, "0")}`;

function createChannel() {
  const asked: (readonly number[])[] = [];
  const trouble: string[] = [];
  const beats: [number, number][] = [];
  const line: CodeChannel = {
    requestChunks: (_, parts) => asked.push(parts),
    reportProgress: (done, total) => beats.push([done, total]),
    onError: (words) => trouble.push(words),
  };
  return { line, asked, trouble, beats };
}

const receiveChunk = (name: string, code: string, index: number, count: number, size: number) => {
  const bytes = encodeText(code);
  const data = bytes.slice(index * size, (index + 1) * size);
  receiveCodeChunk({ type: "blobchunk", blob: name, index, count, bytes: bytes.length }, [
    new DataView(data.buffer),
  ]);
};

test("a piece is asked for at once, then behind one second, two and four; the third time with words", async () => {
  const { line, asked, trouble } = createChannel();
  const ending = new AbortController();
  const waiting = downloadCode("never 00000000", line, ending.signal);
  await flushPromises();
  assert.deepEqual(asked, [[]]);
  await advanceTimers(500);
  assert.equal(asked.length, 1);
  await advanceTimers(500);
  assert.deepEqual([asked.length, trouble.length], [2, 0]);
  await advanceTimers(1_500);
  assert.equal(asked.length, 2);
  await advanceTimers(500);
  assert.deepEqual([asked.length, trouble.length], [3, 1]);
  await advanceTimers(3_500);
  assert.equal(asked.length, 3);
  await advanceTimers(500);
  assert.equal(asked.length, 4);
  ending.abort();
  await assert.rejects(waiting, /closed/);
  await advanceTimers(60_000);
  assert.equal(asked.length, 4);
});

test("two who wait for a piece ask for it once, and have one module", async () => {
  const code = "a piece of code";
  const name = codeName(code);
  receiveChunk(name, code, 0, 1, 100); // not waited for
  assert.equal(loadedModule(name), undefined);
  const [one, other] = [createChannel(), createChannel()];
  const both = [downloadCode(name, one.line), downloadCode(name, other.line)];
  await flushPromises();
  assert.deepEqual([one.asked.length, other.asked.length], [1, 0]);
  receiveChunk(name, code, 2, 3, 6);
  receiveChunk(name, code, 0, 3, 6);
  assert.equal(loadedModule(name), undefined);
  receiveChunk(name, code, 1, 3, 6);
  assert.notEqual(loadedModule(name), undefined);
  const [first, second] = await Promise.all(both);
  assert.equal(first, second);
  receiveChunk(name, code, 0, 1, 100); // again
  assert.equal(await downloadCode(name, one.line), first);
  assert.deepEqual([one.asked.length, other.asked.length, createdBlobs.length], [1, 0, 1]);
});

test("parts that are missing are asked for alone, and what was damaged as a whole", async () => {
  const code = "some other code of this page";
  const name = codeName(code);
  const { line, asked, trouble, beats } = createChannel();
  const waiting = downloadCode(name, line);
  await flushPromises();
  receiveChunk(name, code, 1, 3, 10);
  await flushPromises();
  assert.deepEqual(beats.at(-1), [1, 3]);
  await advanceTimers(1_000);
  assert.deepEqual(asked, [[], [0, 2]]);
  for (const times of [1, 2]) {
    for (const part of [0, 1, 2]) receiveChunk(name, code.replace("other", "wrong"), part, 3, 10);
    await flushPromises();
    assert.equal(loadedModule(name), undefined);
    assert.equal(trouble.includes("The download was damaged twice and starts again."), times === 2);
    if (times === 1) assert.deepEqual(asked.at(-1), [0, 1, 2], "at once");
  }
  for (const part of [0, 1, 2]) receiveChunk(name, code, part, 3, 10);
  await waiting;
});

test("compressed code is decompressed before it is imported, other code is imported as it is", async () => {
  const code = "export const found = 'a piece of code'; // ".padEnd(5_000, "é");
  for (const sent of [gzipSync(code), encodeText(code)]) {
    const name = `code ${crc32(sent).toString(16).padStart(8, "0")}`;
    const waiting = downloadCode(name, createChannel().line);
    await flushPromises();
    const bytes = new Uint8Array(sent);
    receiveCodeChunk({ type: "blobchunk", blob: name, index: 0, count: 1, bytes: bytes.length }, [
      bytes,
    ]);
    await waiting;
    const file = createdBlobs.at(-1);
    assert.equal(file?.type, "text/javascript");
    assert.equal(await file?.text(), code);
  }
});
