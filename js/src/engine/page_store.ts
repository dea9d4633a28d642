// State shared by all viewers of a page: one graphics device, and blobs (Plans, weights, inputs) by content hash.

import { PACKAGE_VERSION } from "../messages.ts";
import type { Device, Runtime } from "../plan/runtime.ts";

/** Size limit in bytes of the cache of unused blobs, kept for the next run of the cell. */
const MAX_UNUSED_BYTES = 64 * 2 ** 20;
/** How long a device without viewers is kept: rerunning a cell closes one viewer and opens another. */
const DEVICE_IDLE_MS = 10_000;

interface StoredBlob {
  readonly data: Uint8Array<ArrayBuffer>;
  refCount: number;
}

export class PageStore {
  private device: Device | undefined;
  private deviceUsers = 0;
  private idleTimer: ReturnType<typeof setTimeout> | undefined;
  /** In least-recently-used order. */
  private readonly blobs = new Map<string, StoredBlob>();

  /** Return the page's device and count one user, until `releaseDevice` is called; throws DeviceUnavailable. */
  acquireDevice(runtime: Runtime): Device {
    clearTimeout(this.idleTimer);
    this.device ??= runtime.openDevice();
    this.deviceUsers += 1;
    return this.device;
  }

  releaseDevice(): void {
    this.deviceUsers -= 1;
    if (this.deviceUsers > 0) return;
    clearTimeout(this.idleTimer);
    this.idleTimer = setTimeout(() => {
      if (this.deviceUsers > 0) return;
      this.device?.dispose();
      this.device = undefined;
    }, DEVICE_IDLE_MS);
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

  add(hash: string, data: Uint8Array<ArrayBuffer>, refCount: number): void {
    const old = this.blobs.get(hash);
    if (old === undefined) this.blobs.set(hash, { data, refCount });
    else old.refCount += refCount;
    this.evictUnused();
  }

  /** Retain a stored blob until `release`. Returns whether the blob is stored. */
  retain(hash: string): boolean {
    const blob = this.blobs.get(hash);
    if (blob !== undefined) blob.refCount += 1;
    return blob !== undefined;
  }

  release(hash: string): void {
    const blob = this.blobs.get(hash);
    if (blob === undefined) return;
    blob.refCount -= 1;
    this.blobs.delete(hash);
    // Move to the end: the most recently used. A name with a space is not a content hash and is never requested again.
    if (blob.refCount > 0 || !hash.includes(" ")) this.blobs.set(hash, blob);
    this.evictUnused();
  }

  private evictUnused(): void {
    const spare = [...this.blobs].filter(([, blob]) => blob.refCount === 0);
    let bytes = spare.reduce((sum, [, blob]) => sum + blob.data.byteLength, 0);
    for (const [hash, { data }] of spare) {
      if (bytes <= MAX_UNUSED_BYTES) return;
      this.blobs.delete(hash);
      bytes -= data.byteLength;
    }
  }
}

/**
 * The page's store. A page may contain several bundles, so the store hangs on its global object. Each version of the
 * package has its own store, because two notebooks may use two versions.
 */
export function pageStore(): PageStore {
  const key = Symbol.for("nbglcnn.v1");
  const page = globalThis as unknown as Record<symbol, Map<string, PageStore> | undefined>;
  const stores = page[key] ?? new Map<string, PageStore>();
  page[key] = stores;
  const store = stores.get(PACKAGE_VERSION) ?? new PageStore();
  stores.set(PACKAGE_VERSION, store);
  return store;
}
