// Code from Python: named by its content, fetched once per page for all Viewers, and decompressed here.
import { bytesOf, type MessageBuffer } from "./message_buffers.ts";
import type { BlobChunk } from "./messages.ts";

/** Nothing was heard for this long: a piece is asked for again; the next time after twice as long, and so on. */
const RETRY_MS = 1_000;
const MIME_TYPE = "text/javascript";
/** How often a page looks after what it waits for, and tells Python while parts are coming. */
const POLL_MS = 500;

/** A piece of code: what has come of it, and its module once all has. Loaders of several versions share it. */
interface CodeFile {
  readonly parts: Map<number, Uint8Array<ArrayBuffer>>;
  count: number;
  /** When a part came, or somebody asked for it, by performance.now(). */
  lastHeardAt: number;
  /** How often it came whole, but was not what its name says. */
  damagedCount: number;
  module: Promise<unknown> | undefined;
  readonly wakeCallbacks: Set<() => void>;
}

/** A Viewer's line to Python, as far as code goes. */
export interface CodeChannel {
  /** Asks for these parts of a piece, for all when none are listed. */
  requestParts(name: string, parts: number[]): void;
  /** Tells Python that this page is waiting, and that so many of the parts have come. */
  reportProgress?(done: number, total: number): void;
  /** Asked for twice in vain, or damaged twice: words for people. The waiting goes on. */
  onError(text: string): void;
}

/** The page's pieces of code by name. */
function codeFiles(): Map<string, CodeFile> {
  const key = Symbol.for("nbglcnn.code.v1");
  const page = globalThis as unknown as Record<symbol, Map<string, CodeFile> | undefined>;
  const found = page[key] ?? new Map<string, CodeFile>();
  page[key] = found;
  return found;
}

function codeFileOf(name: string): CodeFile {
  const known = codeFiles();
  const found = known.get(name) ?? {
    parts: new Map(),
    count: 1,
    lastHeardAt: Number.NEGATIVE_INFINITY,
    damagedCount: 0,
    module: undefined,
    wakeCallbacks: new Set(),
  };
  known.set(name, found);
  return found;
}

/** The module of a piece that is here whole. */
export const loadedModule = (name: string): Promise<unknown> | undefined =>
  codeFiles().get(name)?.module;

/** Takes a part of a piece that somebody waits for; ignores any other. */
export function receiveCode(
  { blob, index, count, bytes }: BlobChunk,
  buffers: readonly MessageBuffer[],
): void {
  const piece = codeFiles().get(blob);
  const data = bytesOf(buffers[0]);
  if (piece === undefined || piece.module !== undefined || data === undefined) return;
  piece.parts.set(index, data);
  piece.count = count;
  piece.lastHeardAt = performance.now();
  if (piece.parts.size === count) completeFile(piece, blob, bytes);
  for (const wake of [...piece.wakeCallbacks]) wake();
}

function completeFile(piece: CodeFile, name: string, bytes: number): void {
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const [, data] of [...piece.parts].sort(([a], [b]) => a - b)) {
    if (at + data.length <= bytes) whole.set(data, at);
    at += data.length;
  }
  piece.parts.clear();
  // A name ends with its CRC-32: pages over plain http have no crypto.subtle.
  if (at === bytes && crc32(whole) === Number.parseInt(name.slice(-8), 16)) {
    const module = importModule(name, whole);
    module.catch(() => undefined); // those that wait for it get the error
    piece.module = module;
  } else {
    piece.damagedCount++;
    piece.lastHeardAt = Number.NEGATIVE_INFINITY; // it may be asked for at once
  }
}

async function importModule(name: string, code: Uint8Array<ArrayBuffer>): Promise<unknown> {
  try {
    const url = URL.createObjectURL(await scriptBlob(code));
    return await import(url).finally(() => URL.revokeObjectURL(url));
  } catch (error) {
    codeFiles().delete(name); // the next Viewer tries again
    throw error;
  }
}

/** Whether this page can decompress what Python sends; browsers from before 2023 cannot. */
export const canDecompress = (): boolean => typeof DecompressionStream === "function";

/** Code as a file for `import`: decompressed, where it begins as gzip does. */
async function scriptBlob(code: Uint8Array<ArrayBuffer>): Promise<Blob> {
  const file = new Blob([code], { type: MIME_TYPE });
  if (code[0] !== 0x1f || code[1] !== 0x8b) return file;
  const plain = file.stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(plain, { headers: { "content-type": MIME_TYPE } }).blob();
}

/**
 * The module of a piece of code, whichever Viewer's line brings it; asks for it where no line has for a while.
 * Waits for good, as Python may be busy: until `signal` says that nobody wants it any more, and rejects then.
 */
export async function downloadCode(
  name: string,
  line: CodeChannel,
  signal?: AbortSignal,
): Promise<unknown> {
  let due = performance.now();
  let wait = RETRY_MS;
  let tries = 0;
  let damaged = 0;
  while (!signal?.aborted) {
    const piece = codeFileOf(name);
    if (piece.module !== undefined) return piece.module;
    const now = performance.now();
    if (piece.damagedCount > damaged) {
      damaged = piece.damagedCount;
      if (damaged === 1) due = now;
      else line.onError("The download was damaged twice and starts again.");
    }
    if (now >= Math.max(due, piece.lastHeardAt + RETRY_MS)) {
      if (tries > 1) line.onError("Python is busy or not connected.");
      line.requestParts(name, missingParts(piece));
      tries++;
      piece.lastHeardAt = now;
      due = now + wait;
      wait *= 2;
    } else if (now - piece.lastHeardAt < 2 * RETRY_MS)
      line.reportProgress?.(piece.parts.size, piece.count);
    await waitForWake(piece, signal);
  }
  throw new DOMException("closed", "AbortError");
}

/** Parts that have not come while others have; none listed while nothing has, and Python may yet be about to send it. */
function missingParts({ parts, count, damagedCount }: CodeFile): number[] {
  if (parts.size === 0 && damagedCount === 0) return [];
  return Array.from({ length: count }, (_, k) => k).filter((k) => !parts.has(k));
}

/** Resolves when something of a piece has come, after a beat, or by the signal. */
function waitForWake(piece: CodeFile, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", wake);
      piece.wakeCallbacks.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, POLL_MS);
    signal?.addEventListener("abort", wake);
    piece.wakeCallbacks.add(wake);
  });
}

/** The CRC-32 of zlib, bit by bit: the loader is a copy for each Viewer, and what it checks is small. */
function crc32(bytes: Uint8Array): number {
  let sum = -1;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (0xedb88320 & -(sum & 1));
  }
  return ~sum >>> 0;
}
