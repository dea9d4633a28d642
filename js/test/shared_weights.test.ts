// Textures of weights that several Engines of a page use: who may write into one, and when it is freed.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Texture } from "../src/plan/schema.ts";
import type { Resources } from "../src/webgl/resources.ts";
import { SharedTextures } from "../src/webgl/shared_weights.ts";

const size = (width = 4, format: Texture["format"] = "rgba32f") =>
  ({ width, height: 2, layers: 1, format }) as Texture;

function shared() {
  const freed: WebGLTexture[] = [];
  const made: unknown[] = [];
  const resources: Partial<Resources> = {
    texture: (...wanted) => {
      made.push(wanted);
      return { made: made.length } as unknown as WebGLTexture;
    },
    freeTexture: (texture) => void freed.push(texture),
  };
  const texture = {} as WebGLTexture;
  const own = new SharedTextures(resources as Resources);
  own.offer("hash", size(), texture);
  return { own, texture, freed, made };
}

test("weights are shared by their hash, size and format", () => {
  const { own, texture } = shared();
  assert.equal(own.find("hash", size()), texture);
  for (const [hash, other] of [
    ["other", size()],
    ["hash", size(5)],
    ["hash", size(4, "rgba16f")],
  ] as const) {
    assert.equal(own.find(hash, other), undefined);
  }
  // Weights without a hash are shared by none; what is there stays there.
  own.offer("", size(), {} as WebGLTexture);
  assert.equal(own.find("", size()), undefined);
  own.offer("hash", size(), {} as WebGLTexture);
  own.offer("second", size(), texture);
  assert.equal(own.find("hash", size()), texture);
  assert.equal(own.find("second", size()), undefined);
});

test("the last user frees a texture, once", () => {
  const { own, texture, freed } = shared();
  own.find("hash", size());
  own.find("hash", size());
  own.free(texture);
  own.free(texture);
  assert.deepEqual(freed, []);
  own.free(texture);
  assert.deepEqual(freed, [texture]);
  assert.equal(own.find("hash", size()), undefined, "it is gone");
});

test("a user that writes other weights leaves the texture to the others, and the last one has it", () => {
  const { own, texture, freed, made } = shared();
  own.find("hash", size());
  const other = own.own(texture, size());
  assert.notEqual(other, texture);
  assert.deepEqual(made, [[size(), "rgba32f"]]);
  // One user is left, which may write; then the weights are no longer there to share.
  assert.equal(own.own(texture, size()), texture);
  assert.equal(own.find("hash", size()), undefined);
  assert.equal(made.length, 1);
  own.free(other);
  own.free(texture);
  assert.deepEqual(freed, [other, texture]);
});
