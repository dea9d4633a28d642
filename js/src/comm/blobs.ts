// Blobs that a source looks at: each is asked for by itself, and nobody keeps it here once it has come.
import { type Buffer, bytesOf } from "../buffers.ts";
import { CHUNK, type Part } from "../messages.ts";

/** After so long a silence what is missing is asked for again, and after the second nobody waits any more. */
const QUIET_MS = 3_000;
const GIVE_UP_MS = 60_000;

type Bytes = Uint8Array<ArrayBuffer>;

interface Waiting {
  readonly parts: Map<number, Bytes>;
  count: number;
  /** When a part came last, by performance.now(). */
  heard: number;
  readonly come: Promise<Bytes>;
  end(data: Bytes | Error): void;
}

export class Blobs {
  private readonly ask: (blob: string, parts: number[]) => void;
  private readonly waiting = new Map<string, Waiting>();

  constructor(ask: (blob: string, parts: number[]) => void) {
    this.ask = ask;
  }

  /** Asks for it; rejects where it does not come. */
  get(blob: string): Promise<Bytes> {
    const known = this.waiting.get(blob);
    if (known !== undefined) return known.come;
    const { promise: come, resolve, reject } = withResolvers<Bytes>();
    const one: Waiting = {
      parts: new Map(),
      count: 0,
      heard: performance.now(),
      come,
      end: (data) => {
        clearInterval(timer);
        this.waiting.delete(blob);
        if (data instanceof Error) reject(data);
        else resolve(data);
      },
    };
    let asked = false;
    const timer = setInterval(() => {
      const quiet = performance.now() - one.heard;
      if (quiet > GIVE_UP_MS) {
        one.end(new Error("Python has not sent it: it is busy, or no longer has it."));
      } else if (quiet > QUIET_MS && !asked) {
        asked = true; // once: who was busy would send all of it as often
        const all = Array.from({ length: one.count }, (_, k) => k);
        const missing = all.filter((k) => !one.parts.has(k));
        this.ask(blob, missing);
      }
    }, QUIET_MS);
    this.waiting.set(blob, one);
    this.ask(blob, []);
    return come;
  }

  take({ blob, part, count, bytes }: Part, buffers: readonly Buffer[]): void {
    const one = this.waiting.get(blob);
    const data = bytesOf(buffers[0]);
    if (one === undefined || data?.length !== Math.min(CHUNK, bytes - part * CHUNK)) return;
    one.heard = performance.now();
    one.count = count;
    one.parts.set(part, data);
    if (one.parts.size < count) return;
    const whole = new Uint8Array(bytes);
    for (const [k, piece] of one.parts) whole.set(piece, k * CHUNK);
    one.end(whole);
  }

  /** Nobody waits for this one any more, or for any. */
  drop(blob?: string, why = "it is not wanted any more"): void {
    for (const [name, one] of [...this.waiting])
      if (blob === undefined || name === blob) one.end(new Error(why));
  }
}

/** Promise.withResolvers, which browsers of 2023 don't have. */
function withResolvers<T>() {
  let resolve: (value: T) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<T>((...both) => {
    [resolve, reject] = both;
  });
  return { promise, resolve, reject };
}
