// Textures of weights that several Engines of a page use: who may write into one, and when it is freed.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Texture } from "../src/plan/schema.ts";
import type { GlResources } from "../src/webgl/gl_resources.ts";
import { SharedTextures } from "../src/webgl/shared_textures.ts";

const size = (width = 4, format: Texture["format"] = "rgba32f") =>
  ({ width, height: 2, layers: 1, format }) as Texture;

function shared() {
  const freed: WebGLTexture[] = [];
  const made: unknown[] = [];
  const resources: Partial<GlResources> = {
    createTexture: (...wanted) => {
      made.push(wanted);
      return { made: made.length } as unknown as WebGLTexture;
    },
    freeTexture: (texture) => void freed.push(texture),
  };
  const texture = {} as WebGLTexture;
  const own = new SharedTextures(resources as GlResources);
  own.share("hash", size(), texture);
  return { own, texture, freed, made };
}

test("weights are shared by their hash, size and format", () => {
  const { own, texture } = shared();
  assert.equal(own.acquire("hash", size()), texture);
  for (const [hash, other] of [
    ["other", size()],
    ["hash", size(5)],
    ["hash", size(4, "rgba16f")],
  ] as const) {
    assert.equal(own.acquire(hash, other), undefined);
  }
  // Weights without a hash are shared by none; what is there stays there.
  own.share("", size(), {} as WebGLTexture);
  assert.equal(own.acquire("", size()), undefined);
  own.share("hash", size(), {} as WebGLTexture);
  own.share("second", size(), texture);
  assert.equal(own.acquire("hash", size()), texture);
  assert.equal(own.acquire("second", size()), undefined);
});

test("the last user frees a texture, once", () => {
  const { own, texture, freed } = shared();
  own.acquire("hash", size());
  own.acquire("hash", size());
  own.release(texture);
  own.release(texture);
  assert.deepEqual(freed, []);
  own.release(texture);
  assert.deepEqual(freed, [texture]);
  assert.equal(own.acquire("hash", size()), undefined, "it is gone");
});

test("a user that writes other weights leaves the texture to the others, and the last one has it", () => {
  const { own, texture, freed, made } = shared();
  own.acquire("hash", size());
  const other = own.makeExclusive(texture, size());
  assert.notEqual(other, texture);
  assert.deepEqual(made, [[size(), "rgba32f"]]);
  // One user is left, which may write; then the weights are no longer there to share.
  assert.equal(own.makeExclusive(texture, size()), texture);
  assert.equal(own.acquire("hash", size()), undefined);
  assert.equal(made.length, 1);
  own.release(other);
  own.release(texture);
  assert.deepEqual(freed, [other, texture]);
});
