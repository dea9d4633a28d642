// Python's questions for values, and the answers, kept until Python has all of them.
import type { Engine } from "../engine/types.ts";
import { CHUNK, type Read, type Reply } from "../messages.ts";
import { beforeKey } from "../plan/derived_values.ts";
import { macrotask } from "./wire.ts";

/** Sending blocks the page; it may breathe after this many bytes. */
const BREATHE_BYTES = 16 * 2 ** 20;
/** An answer is kept this long for parts that got lost, or until Python has all of it. */
const KEEP_MS = 60_000;

type Bytes = Float32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;

interface Answer {
  readonly revision: number;
  readonly values: readonly Bytes[];
  readonly timer: ReturnType<typeof setTimeout>;
}

export interface AnswersEvents {
  send(reply: Omit<Reply, "type" | "page">, data: ArrayBuffer): void;
  /** So many of a question's values are read. */
  onProgress(done: number, total: number): void;
  /** A picture of the view. */
  onScreen(): Promise<Bytes>;
}

export class Answers {
  private readonly events: AnswersEvents;
  private readonly reads = new Map<string, Read>();
  private readonly answers = new Map<string, Answer>();

  constructor(events: AnswersEvents) {
    this.events = events;
  }

  /** Questions without an answer. */
  get waiting(): readonly Read[] {
    return [...this.reads.values()];
  }

  /** Takes a question; whether it is a new one, which `answer` is to be called for. */
  ask(read: Read): boolean {
    const answer = this.answers.get(read.id);
    if (answer !== undefined) {
      const { missing } = read;
      const parts = missing.length > 0 ? missing : answer.values.flatMap(partsOf);
      void this.reply(read.id, answer, parts);
      return false;
    }
    const isNew = !this.reads.has(read.id);
    if (isNew || read.missing.length > 0) this.reads.set(read.id, read); // lost parts: once all has been sent
    return isNew;
  }

  /** Reads and sends what is asked for, of `revision`. */
  async answer(engine: Engine, read: Read, revision: number): Promise<void> {
    if (read.revision > revision) return; // its State is on the way
    const values: Bytes[] = [];
    const answer = { revision, values };
    const { onScreen, onProgress } = this.events;
    const asked = read.screen
      ? [onScreen]
      : read.keys.map((key) => () => engine.read(read.unbent ? beforeKey(key) : key));
    for (const [k, ask] of asked.entries()) {
      onProgress(k, asked.length);
      const value = await ask();
      if (!this.reads.has(read.id)) return; // nobody waits any more
      // At once: while it is on its way, the next value is drawn.
      await this.reply(read.id, answer, partsOf(value, values.push(value) - 1));
    }
    const last = this.reads.get(read.id);
    if (last === undefined) return;
    this.reads.delete(read.id);
    const timer = setTimeout(() => this.forget(read.id), KEEP_MS);
    this.answers.set(read.id, { ...answer, timer });
    if (last !== read) this.ask(last);
  }

  /** Python has all of it, or doesn't want it any more. */
  done(id: string): void {
    this.reads.delete(id);
    this.forget(id);
  }

  /** Nobody waits for anything. */
  clear(): void {
    this.reads.clear();
    for (const id of [...this.answers.keys()]) this.forget(id);
  }

  private async reply(
    id: string,
    { revision, values }: Pick<Answer, "revision" | "values">,
    parts: readonly (readonly [number, number])[],
  ): Promise<void> {
    let sent = 0;
    for (const [key, part] of parts) {
      const value = values[key];
      if (value === undefined || !(this.answers.has(id) || this.reads.has(id))) continue;
      const { buffer, byteOffset, byteLength: bytes } = value;
      // A copy: a view would be sent as the whole buffer under it.
      const from = byteOffset + part * CHUNK;
      const data = buffer.slice(from, Math.min(from + CHUNK, byteOffset + bytes));
      const count = Math.max(1, Math.ceil(bytes / CHUNK));
      this.events.send({ id, key, part, count, bytes, revision }, data);
      sent += data.byteLength;
      if (sent >= BREATHE_BYTES) {
        sent = 0;
        await macrotask();
      }
    }
  }

  private forget(id: string): void {
    clearTimeout(this.answers.get(id)?.timer);
    this.answers.delete(id);
  }
}

function partsOf(value: Bytes, key: number): (readonly [number, number])[] {
  const count = Math.max(1, Math.ceil(value.byteLength / CHUNK));
  return Array.from({ length: count }, (_, part) => [key, part] as const);
}
