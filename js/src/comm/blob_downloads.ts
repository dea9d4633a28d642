// Blob downloads from Python: which blobs the page needs, which chunks have arrived, and which to request again.

import type { PageStore } from "../engine/page_store.ts";
import { bytesOf, type MessageBuffer } from "../message_buffers.ts";
import { type BlobChunk, CHUNK_BYTES } from "../messages.ts";
import { formatPlural } from "../number_format.ts";
import { warnOnce } from "./message_codec.ts";

/** Missing chunks are requested once more after RETRY_MS of silence; the download fails after GIVE_UP_MS. */
const RETRY_MS = 3_000;
const GIVE_UP_MS = 60_000;

interface BlobDownload {
  readonly data: Uint8Array<ArrayBuffer>;
  readonly missingChunks: Set<number>;
  isRetried: boolean;
}

/** The blobs to download: their hashes, and the size of each in bytes. */
export interface RequestedBlobs {
  readonly hashes: ReadonlySet<string>;
  readonly sizes: Readonly<Record<string, number>>;
}

export interface BlobDownloadEvents {
  /** Request the listed chunks of a blob from Python, or all chunks if the list is empty. */
  requestChunks(hash: string, parts: number[]): void;
  /** A chunk or blob has arrived. */
  onProgress(): void;
  onTimeout(text: string): void;
}

export class BlobDownloads {
  private readonly store: PageStore;
  private readonly events: BlobDownloadEvents;
  private requestedBlobs: RequestedBlobs = { hashes: new Set(), sizes: {} };
  private readonly retained = new Set<string>();
  /** Blobs that Python believes to be in this page. */
  private readonly knownToPython: Set<string>;
  private readonly downloads = new Map<string, BlobDownload>();
  private lastChunkAt = 0;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(store: PageStore, events: BlobDownloadEvents) {
    this.store = store;
    this.events = events;
    this.knownToPython = new Set(store.hashes);
  }

  /** The blobs that Python doesn't need to send. */
  get hashesKnownToPython(): string[] {
    return [...this.knownToPython];
  }

  /** Replace the set of blobs to download and retain; drop all others. */
  setRequested(requestedBlobs: RequestedBlobs): void {
    this.requestedBlobs = requestedBlobs;
    this.retainRequested();
    for (const hash of [...this.downloads.keys()])
      if (!requestedBlobs.hashes.has(hash)) this.downloads.delete(hash);
    for (const hash of requestedBlobs.hashes) {
      // Evicted from the store meanwhile; Python doesn't know.
      if (!this.retained.has(hash) && this.knownToPython.has(hash))
        this.events.requestChunks(hash, []);
      this.knownToPython.add(hash);
    }
    this.lastChunkAt = performance.now();
  }

  /** Retain every requested blob in the store; release all others. */
  retainRequested(): void {
    const { hashes } = this.requestedBlobs;
    for (const hash of hashes)
      if (!this.retained.has(hash) && this.store.retain(hash)) this.retained.add(hash);
    this.releaseWhere((hash) => !hashes.has(hash));
  }

  /** Release all blobs. `retainRequested` retains again those still in the page's store. */
  releaseAll(): void {
    this.releaseWhere(() => true);
  }

  receive({ blob, index, count, bytes }: BlobChunk, buffers: readonly MessageBuffer[]): void {
    if (this.retained.has(blob) || !this.requestedBlobs.hashes.has(blob)) return;
    const data = bytesOf(buffers[0]);
    const length = Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES);
    const parts = Math.max(1, Math.ceil(bytes / CHUNK_BYTES));
    if (
      bytes !== this.requestedBlobs.sizes[blob] ||
      count !== parts ||
      index >= parts ||
      data?.length !== length
    ) {
      warnOnce(`ignored part ${index + 1} of ${count} of ${blob}: its size is wrong`);
      return;
    }
    this.lastChunkAt = performance.now();
    if (parts === 1 && data.byteOffset % 4 === 0) {
      this.complete(blob, data);
      return;
    }
    let arriving = this.downloads.get(blob);
    if (arriving === undefined) {
      arriving = {
        data: new Uint8Array(bytes),
        missingChunks: new Set(Array.from({ length: parts }, (_, k) => k)),
        isRetried: false,
      };
      this.downloads.set(blob, arriving);
    }
    arriving.data.set(data, index * CHUNK_BYTES);
    arriving.missingChunks.delete(index);
    if (arriving.missingChunks.size === 0) this.complete(blob, arriving.data);
    else this.events.onProgress();
  }

  /** Bytes received and total bytes while blobs are missing; undefined if none is missing. */
  get progress(): { readonly done: number; readonly total: number } | undefined {
    const missing = this.missingHashes;
    if (missing.length === 0) return undefined;
    const size = (hash: string) => this.requestedBlobs.sizes[hash] ?? 0;
    const total = [...this.requestedBlobs.hashes].reduce((sum, hash) => sum + size(hash), 0);
    const left = missing.reduce((sum, hash) => {
      const parts = this.downloads.get(hash)?.missingChunks.size;
      return sum + (parts === undefined ? size(hash) : Math.min(size(hash), parts * CHUNK_BYTES));
    }, 0);
    return { done: total - left, total };
  }

  /** Request missing chunks again after a delay, and fail in the end. Cancelled by `stopRetries`. */
  startRetries(): void {
    this.stopRetries();
    this.retryTimer = setTimeout(() => this.retryMissing(), RETRY_MS);
  }

  stopRetries(): void {
    clearTimeout(this.retryTimer);
  }

  /** Abandon all downloads: Python has disconnected. */
  stop(): void {
    this.stopRetries();
    this.downloads.clear();
  }

  private get missingHashes(): string[] {
    return [...this.requestedBlobs.hashes].filter((hash) => !this.retained.has(hash));
  }

  private releaseWhere(shouldRelease: (hash: string) => boolean): void {
    for (const hash of [...this.retained].filter(shouldRelease)) {
      this.retained.delete(hash);
      this.store.release(hash);
    }
  }

  private complete(blob: string, data: Uint8Array<ArrayBuffer>): void {
    this.downloads.delete(blob);
    this.store.add(blob, data, 1);
    this.retained.add(blob);
    this.events.onProgress();
  }

  private retryMissing(): void {
    const quiet = performance.now() - this.lastChunkAt;
    const missing = this.missingHashes;
    for (const blob of missing) {
      const arriving = this.downloads.get(blob) ?? {
        missingChunks: new Set<number>(),
        isRetried: false,
      };
      if (!this.downloads.has(blob) || !arriving.isRetried) {
        if (quiet < 2 * RETRY_MS) this.events.requestChunks(blob, [...arriving.missingChunks]);
        arriving.isRetried = true;
      }
    }
    if (quiet < GIVE_UP_MS) {
      this.retryTimer = setTimeout(() => this.retryMissing(), RETRY_MS);
      return;
    }
    this.events.onTimeout(
      `${formatPlural(missing.length, "data block")} did not arrive; ` +
        "assign viewer.input again, or run the cell again",
    );
  }
}
