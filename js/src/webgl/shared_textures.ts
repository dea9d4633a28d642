// Weight textures by content hash: sessions on one device share the textures of equal weights.
import type { Texture } from "../plan/schema.ts";
import type { GlResources } from "./gl_resources.ts";

interface SharedTexture {
  readonly texture: WebGLTexture;
  refCount: number;
}

export class SharedTextures {
  private readonly resources: GlResources;
  private readonly entries = new Map<string, SharedTexture>();
  private readonly keys = new Map<WebGLTexture, string>();

  constructor(resources: GlResources) {
    this.resources = resources;
  }

  /** Acquire the texture with these weights and size for one more user; undefined if there is none. */
  acquire(hash: string, size: Texture): WebGLTexture | undefined {
    const entry = this.entries.get(textureKey(hash, size));
    if (entry !== undefined) entry.refCount += 1;
    return entry?.texture;
  }

  /** Register `texture`, which now holds all of these weights, for sharing. */
  share(hash: string, size: Texture, texture: WebGLTexture): void {
    const name = textureKey(hash, size);
    if (hash === "" || this.entries.has(name) || this.keys.has(texture)) return;
    this.entries.set(name, { texture, refCount: 1 });
    this.keys.set(texture, name);
  }

  /** The texture to write other weights into: `texture` itself if it has no other users, else a new one. */
  makeExclusive(texture: WebGLTexture, size: Texture): WebGLTexture {
    const entry = this.entries.get(this.keys.get(texture) ?? "");
    if (entry === undefined || entry.refCount === 1) {
      this.removeEntry(texture);
      return texture;
    }
    entry.refCount -= 1;
    return this.resources.createTexture(size, size.format);
  }

  /** Remove one user; the last one frees the texture. */
  release(texture: WebGLTexture): void {
    const entry = this.entries.get(this.keys.get(texture) ?? "");
    if (entry !== undefined) {
      entry.refCount -= 1;
      if (entry.refCount > 0) return;
      this.removeEntry(texture);
    }
    this.resources.freeTexture(texture);
  }

  private removeEntry(texture: WebGLTexture): void {
    this.entries.delete(this.keys.get(texture) ?? "");
    this.keys.delete(texture);
  }
}

const textureKey = (hash: string, { width, height, layers, format }: Texture): string =>
  `${hash} ${width}×${height}×${layers} ${format}`;
