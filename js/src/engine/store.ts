// What all viewers of a page share: one graphics device, and blobs (Plans, weights, inputs) by content hash.

import { PACKAGE_VERSION } from "../messages.ts";
import type { Device, Runtime } from "../plan/runtime.ts";

/** Blobs that no viewer shows now are kept up to this many bytes, for the next run of the cell. */
const SPARE_BYTES = 64 * 2 ** 20;
/** A device without viewers is kept this long: a cell that runs again closes one and opens another. */
const IDLE_MS = 10_000;

interface Blob {
  readonly data: Uint8Array<ArrayBuffer>;
  holders: number;
}

export class Store {
  private device: Device | undefined;
  private users = 0;
  private idle: ReturnType<typeof setTimeout> | undefined;
  /** In the order of their last use. */
  private readonly blobs = new Map<string, Blob>();

  /** The page's device, for as long as `giveBack` has not been called as often; throws DeviceUnavailable. */
  takeDevice(runtime: Runtime): Device {
    clearTimeout(this.idle);
    this.device ??= runtime.openDevice();
    this.users += 1;
    return this.device;
  }

  giveBack(): void {
    this.users -= 1;
    if (this.users > 0) return;
    clearTimeout(this.idle);
    this.idle = setTimeout(() => {
      if (this.users > 0) return;
      this.device?.dispose();
      this.device = undefined;
    }, IDLE_MS);
  }

  get hashes(): string[] {
    return [...this.blobs.keys()];
  }

  has(hash: string): boolean {
    return this.blobs.has(hash);
  }

  get(hash: string): Uint8Array<ArrayBuffer> | undefined {
    return this.blobs.get(hash)?.data;
  }

  put(hash: string, data: Uint8Array<ArrayBuffer>, holders: number): void {
    const old = this.blobs.get(hash);
    if (old === undefined) this.blobs.set(hash, { data, holders });
    else old.holders += holders;
    this.trim();
  }

  /** Keeps a blob that is there until `release`; whether it is there. */
  hold(hash: string): boolean {
    const blob = this.blobs.get(hash);
    if (blob !== undefined) blob.holders += 1;
    return blob !== undefined;
  }

  release(hash: string): void {
    const blob = this.blobs.get(hash);
    if (blob === undefined) return;
    blob.holders -= 1;
    this.blobs.delete(hash);
    // To the end: the youngest of the spare ones. What has a name with a space, no hash, never comes again.
    if (blob.holders > 0 || !hash.includes(" ")) this.blobs.set(hash, blob);
    this.trim();
  }

  private trim(): void {
    const spare = [...this.blobs].filter(([, blob]) => blob.holders === 0);
    let bytes = spare.reduce((sum, [, blob]) => sum + blob.data.byteLength, 0);
    for (const [hash, { data }] of spare) {
      if (bytes <= SPARE_BYTES) return;
      this.blobs.delete(hash);
      bytes -= data.byteLength;
    }
  }
}

/**
 * The page's store. A page may have several bundles, so the store hangs on its global object; one for
 * each version of the package, since two notebooks may use two.
 */
export function pageStore(): Store {
  const key = Symbol.for("nbglcnn.v1");
  const page = globalThis as unknown as Record<symbol, Map<string, Store> | undefined>;
  const stores = page[key] ?? new Map<string, Store>();
  page[key] = stores;
  const store = stores.get(PACKAGE_VERSION) ?? new Store();
  stores.set(PACKAGE_VERSION, store);
  return store;
}
