// Message buffers in every form that a host may give them.
import assert from "node:assert/strict";
import test from "node:test";
import { runInNewContext } from "node:vm";
import { type Buffer, bytesOf } from "../src/buffers.ts";

const BYTES = [0, 1, 127, 128, 200, 255, 7];
const own = () => Uint8Array.from(BYTES).buffer;
/** Bytes in the middle of a larger buffer, at an address that is no multiple of four. */
const inside = () => Uint8Array.from([9, 9, 9, ...BYTES, 9, 9]).buffer;

const FORMS: readonly (readonly [string, Buffer])[] = [
  ["a DataView", new DataView(own())],
  ["a DataView of a part", new DataView(inside(), 3, BYTES.length)],
  ["an ArrayBuffer", own()],
  ["an ArrayBuffer of another frame", runInNewContext(`Uint8Array.from([${BYTES}]).buffer`)],
  [
    "a DataView of another frame",
    runInNewContext(`new DataView(new Uint8Array([${BYTES}]).buffer)`),
  ],
  ["a Uint8Array", Uint8Array.from(BYTES)],
  ["a Uint8Array of a part", new Uint8Array(inside(), 3, BYTES.length)],
  ["base64", btoa(String.fromCharCode(...BYTES))],
];

for (const [name, buffer] of FORMS) {
  test(`${name} is read`, () => {
    assert.deepEqual([...(bytesOf(buffer) ?? [])], BYTES);
  });
}

test("what holds no bytes is none", () => {
  const others = [undefined, null, 7, {}, [1, 2], "no base64: ä"] as unknown as Buffer[];
  for (const other of others) assert.equal(bytesOf(other), undefined);
});
