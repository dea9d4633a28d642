// Code from Python: named by its content, fetched once per page for all Viewers, and decompressed here.
import { type Buffer, bytesOf } from "./buffers.ts";
import type { Part } from "./messages.ts";

/** Nothing was heard for this long: a piece is asked for again; the next time after twice as long, and so on. */
const QUIET_MS = 1_000;
const TYPE = "text/javascript";
/** How often a page looks after what it waits for, and tells Python while parts are coming. */
const BEAT_MS = 500;

/** A piece of code: what has come of it, and its module once all has. Loaders of several versions share it. */
interface Piece {
  readonly parts: Map<number, Uint8Array<ArrayBuffer>>;
  count: number;
  /** When a part came, or somebody asked for it, by performance.now(). */
  heard: number;
  /** How often it came whole, but was not what its name says. */
  damaged: number;
  module: Promise<unknown> | undefined;
  readonly wake: Set<() => void>;
}

/** A Viewer's line to Python, as far as code goes. */
export interface Line {
  /** Asks for these parts of a piece, for all when none are listed. */
  ask(name: string, parts: number[]): void;
  /** Tells Python that this page is waiting, and that so many of the parts have come. */
  beat?(done: number, total: number): void;
  /** Asked for twice in vain, or damaged twice: words for people. The waiting goes on. */
  onTrouble(text: string): void;
}

/** The page's pieces of code by name. */
function pieces(): Map<string, Piece> {
  const key = Symbol.for("nbglcnn.code.v1");
  const page = globalThis as unknown as Record<symbol, Map<string, Piece> | undefined>;
  const found = page[key] ?? new Map<string, Piece>();
  page[key] = found;
  return found;
}

function pieceOf(name: string): Piece {
  const known = pieces();
  const found = known.get(name) ?? {
    parts: new Map(),
    count: 1,
    heard: Number.NEGATIVE_INFINITY,
    damaged: 0,
    module: undefined,
    wake: new Set(),
  };
  known.set(name, found);
  return found;
}

/** The module of a piece that is here whole. */
export const moduleOf = (name: string): Promise<unknown> | undefined => pieces().get(name)?.module;

/** Takes a part of a piece that somebody waits for; ignores any other. */
export function takeCode({ blob, part, count, bytes }: Part, buffers: readonly Buffer[]): void {
  const piece = pieces().get(blob);
  const data = bytesOf(buffers[0]);
  if (piece === undefined || piece.module !== undefined || data === undefined) return;
  piece.parts.set(part, data);
  piece.count = count;
  piece.heard = performance.now();
  if (piece.parts.size === count) complete(piece, blob, bytes);
  for (const wake of [...piece.wake]) wake();
}

function complete(piece: Piece, name: string, bytes: number): void {
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const [, data] of [...piece.parts].sort(([a], [b]) => a - b)) {
    if (at + data.length <= bytes) whole.set(data, at);
    at += data.length;
  }
  piece.parts.clear();
  // A name ends with its CRC-32: pages over plain http have no crypto.subtle.
  if (at === bytes && crc32(whole) === Number.parseInt(name.slice(-8), 16)) {
    const module = imported(name, whole);
    module.catch(() => undefined); // those that wait for it get the error
    piece.module = module;
  } else {
    piece.damaged++;
    piece.heard = Number.NEGATIVE_INFINITY; // it may be asked for at once
  }
}

async function imported(name: string, code: Uint8Array<ArrayBuffer>): Promise<unknown> {
  try {
    const url = URL.createObjectURL(await script(code));
    return await import(url).finally(() => URL.revokeObjectURL(url));
  } catch (error) {
    pieces().delete(name); // the next Viewer tries again
    throw error;
  }
}

/** Whether this page can decompress what Python sends; browsers from before 2023 cannot. */
export const canDecompress = (): boolean => typeof DecompressionStream === "function";

/** Code as a file for `import`: decompressed, where it begins as gzip does. */
async function script(code: Uint8Array<ArrayBuffer>): Promise<Blob> {
  const file = new Blob([code], { type: TYPE });
  if (code[0] !== 0x1f || code[1] !== 0x8b) return file;
  const plain = file.stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(plain, { headers: { "content-type": TYPE } }).blob();
}

/**
 * The module of a piece of code, whichever Viewer's line brings it; asks for it where no line has for a while.
 * Waits for good, as Python may be busy: until `signal` says that nobody wants it any more, and rejects then.
 */
export async function codeOf(name: string, line: Line, signal?: AbortSignal): Promise<unknown> {
  let due = performance.now();
  let wait = QUIET_MS;
  let tries = 0;
  let damaged = 0;
  while (!signal?.aborted) {
    const piece = pieceOf(name);
    if (piece.module !== undefined) return piece.module;
    const now = performance.now();
    if (piece.damaged > damaged) {
      damaged = piece.damaged;
      if (damaged === 1) due = now;
      else line.onTrouble("It arrived damaged, twice.");
    }
    if (now >= Math.max(due, piece.heard + QUIET_MS)) {
      if (tries > 1) line.onTrouble("Python has not sent it yet: it is busy, or gone.");
      line.ask(name, wantedOf(piece));
      tries++;
      piece.heard = now;
      due = now + wait;
      wait *= 2;
    } else if (now - piece.heard < 2 * QUIET_MS) line.beat?.(piece.parts.size, piece.count);
    await woken(piece, signal);
  }
  throw new DOMException("closed", "AbortError");
}

/** Parts that have not come while others have; none listed while nothing has, and Python may yet be about to send it. */
function wantedOf({ parts, count, damaged }: Piece): number[] {
  if (parts.size === 0 && damaged === 0) return [];
  return Array.from({ length: count }, (_, k) => k).filter((k) => !parts.has(k));
}

/** Resolves when something of a piece has come, after a beat, or by the signal. */
function woken(piece: Piece, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", wake);
      piece.wake.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, BEAT_MS);
    signal?.addEventListener("abort", wake);
    piece.wake.add(wake);
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
