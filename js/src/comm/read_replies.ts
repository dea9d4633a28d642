// Read requests from Python and their replies, kept until Python has received all chunks.
import type { Engine } from "../engine/types.ts";
import { CHUNK_BYTES, type Read, type Reply } from "../messages.ts";
import { beforeEditsKey } from "../plan/derived_values.ts";
import { waitForMacrotask } from "./message_codec.ts";

/** Sending blocks the page; yield to the event loop after this many bytes. */
const YIELD_BYTES = 16 * 2 ** 20;
/** Replies are cached this long to resend lost chunks, or until Python has all of them. */
const REPLY_CACHE_MS = 60_000;

type ReplyValue = Float32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;

interface CachedReply {
  readonly revision: number;
  readonly values: readonly ReplyValue[];
  readonly timer: ReturnType<typeof setTimeout>;
}

export interface ReadReplyEvents {
  send(reply: Omit<Reply, "type" | "page">, data: ArrayBuffer): void;
  /** Progress of a read: values read so far and their total. */
  onProgress(done: number, total: number): void;
  /** Capture a screenshot of the view. */
  captureView(): Promise<ReplyValue>;
}

export class ReadReplies {
  private readonly events: ReadReplyEvents;
  private readonly pendingReads = new Map<string, Read>();
  private readonly cachedReplies = new Map<string, CachedReply>();

  constructor(events: ReadReplyEvents) {
    this.events = events;
  }

  /** Read requests without a reply. */
  get unansweredReads(): readonly Read[] {
    return [...this.pendingReads.values()];
  }

  /** Register a read request. Returns whether it is new, so that `readAndReply` must be called for it. */
  receive(read: Read): boolean {
    const answer = this.cachedReplies.get(read.id);
    if (answer !== undefined) {
      const { missing_chunks } = read;
      const parts = missing_chunks.length > 0 ? missing_chunks : answer.values.flatMap(listChunks);
      void this.sendChunks(read.id, answer, parts);
      return false;
    }
    const isNew = !this.pendingReads.has(read.id);
    if (isNew || read.missing_chunks.length > 0) this.pendingReads.set(read.id, read); // lost chunks
    return isNew;
  }

  /** Read the requested values of `revision` and send them. */
  async readAndReply(engine: Engine, read: Read, revision: number): Promise<void> {
    if (read.revision > revision) return; // the Manifest is still in transit
    const values: ReplyValue[] = [];
    const answer = { revision, values };
    const { captureView, onProgress } = this.events;
    const readers = read.is_screenshot
      ? [captureView]
      : read.keys.map((key) => () => engine.read(read.before_edits ? beforeEditsKey(key) : key));
    for (const [k, readValue] of readers.entries()) {
      onProgress(k, readers.length);
      const value = await readValue();
      if (!this.pendingReads.has(read.id)) return; // the request was cancelled
      // Send each value at once: the GPU computes the next one meanwhile.
      await this.sendChunks(read.id, answer, listChunks(value, values.push(value) - 1));
    }
    const latestRead = this.pendingReads.get(read.id);
    if (latestRead === undefined) return;
    this.pendingReads.delete(read.id);
    const timer = setTimeout(() => this.dropReply(read.id), REPLY_CACHE_MS);
    this.cachedReplies.set(read.id, { ...answer, timer });
    if (latestRead !== read) this.receive(latestRead);
  }

  /** Forget a request: Python has all chunks or has cancelled it. */
  finish(id: string): void {
    this.pendingReads.delete(id);
    this.dropReply(id);
  }

  /** Forget all requests and replies. */
  clear(): void {
    this.pendingReads.clear();
    for (const id of [...this.cachedReplies.keys()]) this.dropReply(id);
  }

  private async sendChunks(
    id: string,
    { revision, values }: Pick<CachedReply, "revision" | "values">,
    chunks: readonly (readonly [number, number])[],
  ): Promise<void> {
    let sent = 0;
    for (const [key, chunk] of chunks) {
      const value = values[key];
      if (value === undefined || !(this.cachedReplies.has(id) || this.pendingReads.has(id)))
        continue;
      const { buffer, byteOffset, byteLength: bytes } = value;
      // Copy: a typed-array view would be sent with its whole buffer.
      const from = byteOffset + chunk * CHUNK_BYTES;
      const data = buffer.slice(from, Math.min(from + CHUNK_BYTES, byteOffset + bytes));
      const count = Math.max(1, Math.ceil(bytes / CHUNK_BYTES));
      this.events.send({ id, key, chunk, count, bytes, revision }, data);
      sent += data.byteLength;
      if (sent >= YIELD_BYTES) {
        sent = 0;
        await waitForMacrotask();
      }
    }
  }

  private dropReply(id: string): void {
    clearTimeout(this.cachedReplies.get(id)?.timer);
    this.cachedReplies.delete(id);
  }
}

function listChunks(value: ReplyValue, keyIndex: number): (readonly [number, number])[] {
  const count = Math.max(1, Math.ceil(value.byteLength / CHUNK_BYTES));
  return Array.from({ length: count }, (_, part) => [keyIndex, part] as const);
}
