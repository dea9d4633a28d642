// Blobs that a source requests one at a time; they are not stored here after delivery.
import { bytesOf, type MessageBuffer } from "../message_buffers.ts";
import { type BlobChunk, CHUNK_BYTES } from "../messages.ts";

/** Missing chunks are requested once more after RETRY_MS of silence; the promise rejects after GIVE_UP_MS. */
const RETRY_MS = 3_000;
const GIVE_UP_MS = 60_000;

type Bytes = Uint8Array<ArrayBuffer>;

interface PendingBlob {
  readonly chunks: Map<number, Bytes>;
  chunkCount: number;
  /** Time of the last chunk, by performance.now(). */
  lastChunkAt: number;
  readonly promise: Promise<Bytes>;
  settle(data: Bytes | Error): void;
}

export class BlobRequests {
  private readonly requestChunks: (blob: string, parts: number[]) => void;
  private readonly pending = new Map<string, PendingBlob>();

  constructor(requestChunks: (blob: string, parts: number[]) => void) {
    this.requestChunks = requestChunks;
  }

  /** Request a blob; reject if it doesn't arrive. */
  fetch(blob: string): Promise<Bytes> {
    const known = this.pending.get(blob);
    if (known !== undefined) return known.promise;
    const { promise: come, resolve, reject } = withResolvers<Bytes>();
    const one: PendingBlob = {
      chunks: new Map(),
      chunkCount: 0,
      lastChunkAt: performance.now(),
      promise: come,
      settle: (data) => {
        clearInterval(timer);
        this.pending.delete(blob);
        if (data instanceof Error) reject(data);
        else resolve(data);
      },
    };
    let asked = false;
    const timer = setInterval(() => {
      const quiet = performance.now() - one.lastChunkAt;
      if (quiet > GIVE_UP_MS) {
        one.settle(
          new Error("Python has not sent the data. It is busy, or the data no longer exists."),
        );
      } else if (quiet > RETRY_MS && !asked) {
        asked = true; // once: a busy Python would send the whole blob for each request
        const all = Array.from({ length: one.chunkCount }, (_, k) => k);
        const missing = all.filter((k) => !one.chunks.has(k));
        this.requestChunks(blob, missing);
      }
    }, RETRY_MS);
    this.pending.set(blob, one);
    this.requestChunks(blob, []);
    return come;
  }

  receive({ blob, index, count, bytes }: BlobChunk, buffers: readonly MessageBuffer[]): void {
    const one = this.pending.get(blob);
    const data = bytesOf(buffers[0]);
    if (one === undefined || data?.length !== Math.min(CHUNK_BYTES, bytes - index * CHUNK_BYTES))
      return;
    one.lastChunkAt = performance.now();
    one.chunkCount = count;
    one.chunks.set(index, data);
    if (one.chunks.size < count) return;
    const whole = new Uint8Array(bytes);
    for (const [k, piece] of one.chunks) whole.set(piece, k * CHUNK_BYTES);
    one.settle(whole);
  }

  /** Reject the pending request for this blob, or for all blobs. */
  cancel(blob?: string, reason = "the request was cancelled"): void {
    for (const [name, one] of [...this.pending])
      if (blob === undefined || name === blob) one.settle(new Error(reason));
  }
}

/** Promise.withResolvers, which browsers from 2023 lack. */
function withResolvers<T>() {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<T>((...both) => {
    [resolve, reject] = both;
  });
  return { promise, resolve, reject };
}
