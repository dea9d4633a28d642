// Blobs on their way from Python: which the page needs, which parts of them are here, and what to ask for again.
import { type Buffer, bytesOf } from "../buffers.ts";
import type { Store } from "../engine/store.ts";
import { CHUNK, type Part } from "../messages.ts";
import { warnOnce } from "./wire.ts";

/** Parts that are missing are asked for once after this silence, and given up after the second. */
const QUIET_MS = 3_000;
const GIVE_UP_MS = 60_000;

interface Arriving {
  readonly data: Uint8Array<ArrayBuffer>;
  readonly missing: Set<number>;
  asked: boolean;
}

/** What there is to gather: hashes, and the bytes of each. */
export interface Wanted {
  readonly hashes: ReadonlySet<string>;
  readonly sizes: Readonly<Record<string, number>>;
}

export interface ArrivalsEvents {
  /** Asks Python for parts of a blob, for all when none are listed. */
  ask(hash: string, parts: number[]): void;
  /** Something has arrived. */
  onArrival(): void;
  onGivenUp(text: string): void;
}

export class Arrivals {
  private readonly store: Store;
  private readonly events: ArrivalsEvents;
  private wanted: Wanted = { hashes: new Set(), sizes: {} };
  private readonly held = new Set<string>();
  /** Blobs that Python believes this page to have. */
  private readonly claimed: Set<string>;
  private readonly arriving = new Map<string, Arriving>();
  private lastPart = 0;
  private patience: ReturnType<typeof setTimeout> | undefined;

  constructor(store: Store, events: ArrivalsEvents) {
    this.store = store;
    this.events = events;
    this.claimed = new Set(store.hashes);
  }

  /** What Python need not send. */
  get have(): string[] {
    return [...this.claimed];
  }

  /** From now on these are gathered and kept, and no others. */
  want(wanted: Wanted): void {
    this.wanted = wanted;
    this.hold();
    for (const hash of [...this.arriving.keys()])
      if (!wanted.hashes.has(hash)) this.arriving.delete(hash);
    for (const hash of wanted.hashes) {
      // Thrown out meanwhile, and Python doesn't know.
      if (!this.held.has(hash) && this.claimed.has(hash)) this.events.ask(hash, []);
      this.claimed.add(hash);
    }
    this.lastPart = performance.now();
  }

  /** Keeps what is wanted and here, and lets go of all else. */
  hold(): void {
    const { hashes } = this.wanted;
    for (const hash of hashes)
      if (!this.held.has(hash) && this.store.hold(hash)) this.held.add(hash);
    this.letGo((hash) => !hashes.has(hash));
  }

  /** Lets go of all blobs; those that stay in the page are found again by `hold`. */
  release(): void {
    this.letGo(() => true);
  }

  take({ blob, part, count, bytes }: Part, buffers: readonly Buffer[]): void {
    if (this.held.has(blob) || !this.wanted.hashes.has(blob)) return;
    const data = bytesOf(buffers[0]);
    const length = Math.min(CHUNK, bytes - part * CHUNK);
    const parts = Math.max(1, Math.ceil(bytes / CHUNK));
    if (
      bytes !== this.wanted.sizes[blob] ||
      count !== parts ||
      part >= parts ||
      data?.length !== length
    ) {
      warnOnce(`ignored part ${part + 1} of ${count} of ${blob}: its size is wrong`);
      return;
    }
    this.lastPart = performance.now();
    if (parts === 1 && data.byteOffset % 4 === 0) {
      this.complete(blob, data);
      return;
    }
    let arriving = this.arriving.get(blob);
    if (arriving === undefined) {
      arriving = {
        data: new Uint8Array(bytes),
        missing: new Set(Array.from({ length: parts }, (_, k) => k)),
        asked: false,
      };
      this.arriving.set(blob, arriving);
    }
    arriving.data.set(data, part * CHUNK);
    arriving.missing.delete(part);
    if (arriving.missing.size === 0) this.complete(blob, arriving.data);
    else this.events.onArrival();
  }

  /** The bytes that are here and all there are, while some are missing; undefined when nothing is. */
  get left(): { readonly done: number; readonly total: number } | undefined {
    const missing = this.missing;
    if (missing.length === 0) return undefined;
    const size = (hash: string) => this.wanted.sizes[hash] ?? 0;
    const total = [...this.wanted.hashes].reduce((sum, hash) => sum + size(hash), 0);
    const left = missing.reduce((sum, hash) => {
      const parts = this.arriving.get(hash)?.missing.size;
      return sum + (parts === undefined ? size(hash) : Math.min(size(hash), parts * CHUNK));
    }, 0);
    return { done: total - left, total };
  }

  /** Asks again for what doesn't come, and gives up in the end; undone by `rest`. */
  await(): void {
    this.rest();
    this.patience = setTimeout(() => this.remind(), QUIET_MS);
  }

  rest(): void {
    clearTimeout(this.patience);
  }

  /** Nothing more will come. */
  stop(): void {
    this.rest();
    this.arriving.clear();
  }

  private get missing(): string[] {
    return [...this.wanted.hashes].filter((hash) => !this.held.has(hash));
  }

  private letGo(which: (hash: string) => boolean): void {
    for (const hash of [...this.held].filter(which)) {
      this.held.delete(hash);
      this.store.release(hash);
    }
  }

  private complete(blob: string, data: Uint8Array<ArrayBuffer>): void {
    this.arriving.delete(blob);
    this.store.put(blob, data, 1);
    this.held.add(blob);
    this.events.onArrival();
  }

  private remind(): void {
    const quiet = performance.now() - this.lastPart;
    const missing = this.missing;
    for (const blob of missing) {
      const arriving = this.arriving.get(blob) ?? { missing: new Set<number>(), asked: false };
      if (!this.arriving.has(blob) || !arriving.asked) {
        if (quiet < 2 * QUIET_MS) this.events.ask(blob, [...arriving.missing]);
        arriving.asked = true;
      }
    }
    if (quiet < GIVE_UP_MS) {
      this.patience = setTimeout(() => this.remind(), QUIET_MS);
      return;
    }
    this.events.onGivenUp(
      `${missing.length} of the blobs that Python announced did not arrive; ` +
        "assign viewer.input again, or run the cell again",
    );
  }
}
