// Textures of weights that several Engines of a page use: who may write into one, and when it is freed.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Texture } from "../src/plan/schema.ts";
import type { GlResources } from "../src/webgl/gl_resources.ts";
import { SharedTextures } from "../src/webgl/shared_textures.ts";

const textureSize = (width = 4, format: Texture["format"] = "rgba32f") =>
  ({ width, height: 2, layers: 1, format }) as Texture;

function createSharedTextures() {
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
  own.share("hash", textureSize(), texture);
  return { own, texture, freed, made };
}

test("weights are shared by their hash, size and format", () => {
  const { own, texture } = createSharedTextures();
  assert.equal(own.acquire("hash", textureSize()), texture);
  for (const [hash, other] of [
    ["other", textureSize()],
    ["hash", textureSize(5)],
    ["hash", textureSize(4, "rgba16f")],
  ] as const) {
    assert.equal(own.acquire(hash, other), undefined);
  }
  // Weights without a hash are shared by none; what is there stays there.
  own.share("", textureSize(), {} as WebGLTexture);
  assert.equal(own.acquire("", textureSize()), undefined);
  own.share("hash", textureSize(), {} as WebGLTexture);
  own.share("second", textureSize(), texture);
  assert.equal(own.acquire("hash", textureSize()), texture);
  assert.equal(own.acquire("second", textureSize()), undefined);
});

test("the last user frees a texture, once", () => {
  const { own, texture, freed } = createSharedTextures();
  own.acquire("hash", textureSize());
  own.acquire("hash", textureSize());
  own.release(texture);
  own.release(texture);
  assert.deepEqual(freed, []);
  own.release(texture);
  assert.deepEqual(freed, [texture]);
  assert.equal(own.acquire("hash", textureSize()), undefined, "it is gone");
});

test("a user that writes other weights leaves the texture to the others, and the last one has it", () => {
  const { own, texture, freed, made } = createSharedTextures();
  own.acquire("hash", textureSize());
  const other = own.makeExclusive(texture, textureSize());
  assert.notEqual(other, texture);
  assert.deepEqual(made, [[textureSize(), "rgba32f"]]);
  // One user is left, which may write; then the weights are no longer there to share.
  assert.equal(own.makeExclusive(texture, textureSize()), texture);
  assert.equal(own.acquire("hash", textureSize()), undefined);
  assert.equal(made.length, 1);
  own.release(other);
  own.release(texture);
  assert.deepEqual(freed, [other, texture]);
});
