// Textures of weights by the hash of what is in them: sessions on one device that hold the same weights share them.
import type { Texture } from "../plan/schema.ts";
import type { Resources } from "./resources.ts";

interface Entry {
  readonly texture: WebGLTexture;
  users: number;
}

export class SharedTextures {
  private readonly resources: Resources;
  private readonly entries = new Map<string, Entry>();
  private readonly names = new Map<WebGLTexture, string>();

  constructor(resources: Resources) {
    this.resources = resources;
  }

  /** The texture that holds these weights in this form, for one more user; undefined when there is none. */
  find(hash: string, size: Texture): WebGLTexture | undefined {
    const entry = this.entries.get(nameOf(hash, size));
    if (entry !== undefined) entry.users += 1;
    return entry?.texture;
  }

  /** `texture` now holds all of these weights: others may share it. */
  offer(hash: string, size: Texture, texture: WebGLTexture): void {
    const name = nameOf(hash, size);
    if (hash === "" || this.entries.has(name) || this.names.has(texture)) return;
    this.entries.set(name, { texture, users: 1 });
    this.names.set(texture, name);
  }

  /** What to write other weights into instead: `texture` itself where nobody else uses it. */
  own(texture: WebGLTexture, size: Texture): WebGLTexture {
    const entry = this.entries.get(this.names.get(texture) ?? "");
    if (entry === undefined || entry.users === 1) {
      this.forget(texture);
      return texture;
    }
    entry.users -= 1;
    return this.resources.texture(size, size.format);
  }

  /** One user less; the last one frees it. */
  free(texture: WebGLTexture): void {
    const entry = this.entries.get(this.names.get(texture) ?? "");
    if (entry !== undefined) {
      entry.users -= 1;
      if (entry.users > 0) return;
      this.forget(texture);
    }
    this.resources.freeTexture(texture);
  }

  private forget(texture: WebGLTexture): void {
    this.entries.delete(this.names.get(texture) ?? "");
    this.names.delete(texture);
  }
}

const nameOf = (hash: string, { width, height, layers, format }: Texture): string =>
  `${hash} ${width}×${height}×${layers} ${format}`;
