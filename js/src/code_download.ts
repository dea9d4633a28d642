// Download JavaScript modules from Python: content-addressed, fetched once per page for all Viewers, and decompressed
// here.
import { bytesOf, type MessageBuffer } from "./message_buffers.ts";
import type { BlobChunk } from "./messages.ts";

/** Request a file again after this long without a message; each further wait is twice as long. */
const RETRY_MS = 1_000;
const MIME_TYPE = "text/javascript";
/** Polling interval of a download, and the interval of progress reports to Python while chunks arrive. */
const POLL_MS = 500;

/**
 * A JavaScript file in download: the chunks received so far, and its module once complete. Loaders of several package
 * versions share it.
 */
interface CodeFile {
  readonly chunks: Map<number, Uint8Array<ArrayBuffer>>;
  chunkCount: number;
  /** Time of the last chunk or request, by performance.now(). */
  lastActivityAt: number;
  /** How many complete downloads failed the CRC-32 check. */
  checksumFailureCount: number;
  module: Promise<unknown> | undefined;
  readonly wakeCallbacks: Set<() => void>;
}

/** A Viewer's channel to Python, restricted to code downloads. */
export interface CodeChannel {
  /** Request the listed chunks of a file, or all chunks if the list is empty. */
  requestChunks(name: string, parts: number[]): void;
  /** Report to Python that this page is waiting, and how many chunks have arrived. */
  reportProgress?(done: number, total: number): void;
  /**
   * Called with an error message after two unanswered requests or two damaged downloads. The download continues to
   * wait.
   */
  onError(text: string): void;
}

/** The page's code files by name. */
function codeFiles(): Map<string, CodeFile> {
  const key = Symbol.for("nbglcnn.code.v1");
  const page = globalThis as unknown as Record<symbol, Map<string, CodeFile> | undefined>;
  const found = page[key] ?? new Map<string, CodeFile>();
  page[key] = found;
  return found;
}

function getOrCreateCodeFile(name: string): CodeFile {
  const known = codeFiles();
  const found = known.get(name) ?? {
    chunks: new Map(),
    chunkCount: 1,
    lastActivityAt: Number.NEGATIVE_INFINITY,
    checksumFailureCount: 0,
    module: undefined,
    wakeCallbacks: new Set(),
  };
  known.set(name, found);
  return found;
}

/** The module of a completely downloaded file. */
export const loadedModule = (name: string): Promise<unknown> | undefined =>
  codeFiles().get(name)?.module;

/** Store a chunk of a file that is being downloaded; ignore any other chunk. */
export function receiveCodeChunk(
  { blob, index, count, bytes }: BlobChunk,
  buffers: readonly MessageBuffer[],
): void {
  const piece = codeFiles().get(blob);
  const data = bytesOf(buffers[0]);
  if (piece === undefined || piece.module !== undefined || data === undefined) return;
  piece.chunks.set(index, data);
  piece.chunkCount = count;
  piece.lastActivityAt = performance.now();
  if (piece.chunks.size === count) completeFile(piece, blob, bytes);
  for (const wake of [...piece.wakeCallbacks]) wake();
}

function completeFile(codeFile: CodeFile, name: string, byteCount: number): void {
  const whole = new Uint8Array(byteCount);
  let at = 0;
  for (const [, data] of [...codeFile.chunks].sort(([a], [b]) => a - b)) {
    if (at + data.length <= byteCount) whole.set(data, at);
    at += data.length;
  }
  codeFile.chunks.clear();
  // The file name ends with the CRC-32 of its content: pages over plain http have no crypto.subtle.
  if (at === byteCount && crc32(whole) === Number.parseInt(name.slice(-8), 16)) {
    const module = importModule(name, whole);
    module.catch(() => undefined); // the waiting callers receive the rejection
    codeFile.module = module;
  } else {
    codeFile.checksumFailureCount++;
    codeFile.lastActivityAt = Number.NEGATIVE_INFINITY; // it may be requested again at once
  }
}

async function importModule(name: string, code: Uint8Array<ArrayBuffer>): Promise<unknown> {
  try {
    const url = URL.createObjectURL(await scriptBlob(code));
    return await import(url).finally(() => URL.revokeObjectURL(url));
  } catch (error) {
    codeFiles().delete(name); // the next Viewer retries
    throw error;
  }
}

/** Whether this browser can decompress gzip; browsers from before 2023 cannot. */
export const canDecompress = (): boolean => typeof DecompressionStream === "function";

/** The code as a Blob for `import`, decompressed if it starts with the gzip magic bytes. */
async function scriptBlob(code: Uint8Array<ArrayBuffer>): Promise<Blob> {
  const file = new Blob([code], { type: MIME_TYPE });
  if (code[0] !== 0x1f || code[1] !== 0x8b) return file;
  const plain = file.stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(plain, { headers: { "content-type": MIME_TYPE } }).blob();
}

/**
 * Return the module of a file, from whichever Viewer's channel delivers it. Request the file if no channel has done so
 * recently. There is no timeout, because Python may be busy: the promise rejects only when `signal` aborts.
 */
export async function downloadCode(
  name: string,
  channel: CodeChannel,
  signal?: AbortSignal,
): Promise<unknown> {
  let due = performance.now();
  let wait = RETRY_MS;
  let tries = 0;
  let damaged = 0;
  while (!signal?.aborted) {
    const piece = getOrCreateCodeFile(name);
    if (piece.module !== undefined) return piece.module;
    const now = performance.now();
    if (piece.checksumFailureCount > damaged) {
      damaged = piece.checksumFailureCount;
      if (damaged === 1) due = now;
      else channel.onError("The download was damaged twice and starts again.");
    }
    if (now >= Math.max(due, piece.lastActivityAt + RETRY_MS)) {
      if (tries > 1) channel.onError("Python is busy or not connected.");
      channel.requestChunks(name, missingChunks(piece));
      tries++;
      piece.lastActivityAt = now;
      due = now + wait;
      wait *= 2;
    } else if (now - piece.lastActivityAt < 2 * RETRY_MS)
      channel.reportProgress?.(piece.chunks.size, piece.chunkCount);
    await waitForChunkOrTimeout(piece, signal);
  }
  throw new DOMException("closed", "AbortError");
}

/**
 * The chunks still missing. Empty while no chunk has arrived, because Python may be about to send the file unrequested.
 */
function missingChunks({ chunks, chunkCount, checksumFailureCount }: CodeFile): number[] {
  if (chunks.size === 0 && checksumFailureCount === 0) return [];
  return Array.from({ length: chunkCount }, (_, k) => k).filter((k) => !chunks.has(k));
}

/** Resolve when a chunk arrives, after the polling interval, or when `signal` aborts. */
function waitForChunkOrTimeout(codeFile: CodeFile, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", wake);
      codeFile.wakeCallbacks.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, POLL_MS);
    signal?.addEventListener("abort", wake);
    codeFile.wakeCallbacks.add(wake);
  });
}

/** zlib's CRC-32, computed bit by bit: every Viewer includes a copy of the loader, and the checked files are small. */
function crc32(bytes: Uint8Array): number {
  let sum = -1;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (0xedb88320 & -(sum & 1));
  }
  return ~sum >>> 0;
}
