// Message buffers in every form that a host may give them.
import assert from "node:assert/strict";
import test from "node:test";
import { runInNewContext } from "node:vm";
import { decodePatches } from "../src/comm/message_codec.ts";
import { bytesOf, type MessageBuffer } from "../src/message_buffers.ts";

const BYTES = [0, 1, 127, 128, 200, 255, 7];
const exactBuffer = () => Uint8Array.from(BYTES).buffer;
/** Bytes in the middle of a larger buffer, at an address that is no multiple of four. */
const enclosingBuffer = () => Uint8Array.from([9, 9, 9, ...BYTES, 9, 9]).buffer;

const BUFFER_FORMS: readonly (readonly [string, MessageBuffer])[] = [
  ["a DataView", new DataView(exactBuffer())],
  ["a DataView of a part", new DataView(enclosingBuffer(), 3, BYTES.length)],
  ["an ArrayBuffer", exactBuffer()],
  ["an ArrayBuffer of another frame", runInNewContext(`Uint8Array.from([${BYTES}]).buffer`)],
  [
    "a DataView of another frame",
    runInNewContext(`new DataView(new Uint8Array([${BYTES}]).buffer)`),
  ],
  ["a Uint8Array", Uint8Array.from(BYTES)],
  ["a Uint8Array of a part", new Uint8Array(enclosingBuffer(), 3, BYTES.length)],
  ["base64", btoa(String.fromCharCode(...BYTES))],
];

for (const [name, buffer] of BUFFER_FORMS) {
  test(`${name} is read`, () => {
    assert.deepEqual([...(bytesOf(buffer) ?? [])], BYTES);
  });
}

test("what holds no bytes is none", () => {
  const others = [undefined, null, 7, {}, [1, 2], "no base64: ä"] as unknown as MessageBuffer[];
  for (const other of others) assert.equal(bytesOf(other), undefined);
});

test("patched weights are those of their own rectangles, wherever the buffer begins", () => {
  const texels = Float32Array.from({ length: 12 }, (_, k) => k + 0.5);
  for (const begin of [0, 3, 16]) {
    const memory = new Uint8Array(begin + texels.byteLength + 5).fill(9);
    memory.set(new Uint8Array(texels.buffer), begin);
    const buffer = new DataView(memory.buffer, begin, texels.byteLength);
    const rectangles = [
      [7, 0, 1, 2, 2, 1],
      [8, 1, 0, 0, 1, 1],
    ] as const;
    assert.deepEqual(decodePatches(rectangles, buffer), [
      { texture: 7, layer: 0, x: 1, y: 2, width: 2, height: 1, data: texels.slice(0, 8) },
      { texture: 8, layer: 1, x: 0, y: 0, width: 1, height: 1, data: texels.slice(8) },
    ]);
    assert.equal(decodePatches(rectangles.slice(1), buffer), undefined, "of another size");
  }
});
