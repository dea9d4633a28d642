// The rooms' code on its way from Python: it comes unasked behind the weights, and is asked for where it doesn't.
import { codeOf, isExpected, moduleOf } from "../code.ts";

/** Nothing was heard from Python for this long, and a room is not here: it is asked for. */
const UNASKED_MS = 3_000;

export interface RoomsEvents {
  ask(blob: string, parts: number[]): void;
  /** When Python was heard last, by performance.now(). */
  heard(): number;
  onRoom(name: string, module: unknown): void;
  /** Why rooms are not here, in words. */
  onTrouble(text: string): void;
  /** This one does not come any more. */
  onMissing(name: string, text: string): void;
}

export class Rooms {
  private readonly hashes: ReadonlyMap<string, string>;
  private readonly events: RoomsEvents;
  private readonly closing = new AbortController();
  /** What Python need not send: it is in the page, or comes by another Viewer's line. */
  readonly have: readonly string[];

  /** `code` is the trait of that name: each piece's hash, by what it is. */
  constructor(code: unknown, events: RoomsEvents) {
    const { core: _, ...rooms } = (code ?? {}) as Record<string, string>;
    this.hashes = new Map(Object.entries(rooms));
    this.events = events;
    this.have = [...this.hashes.values()].filter(
      (hash) => moduleOf(hash) !== undefined || isExpected(hash),
    );
    for (const [name, hash] of this.hashes) void this.fetch(name, hash);
  }

  /** Nothing more will come by this line. */
  stop(): void {
    this.closing.abort();
  }

  private async fetch(name: string, hash: string): Promise<void> {
    const { ask, heard, onRoom, onTrouble, onMissing } = this.events;
    const { signal } = this.closing;
    try {
      const line = {
        ask,
        heard,
        onTrouble: (text: string) => onTrouble(`This view’s code is not here. ${text}`),
      };
      onRoom(name, await codeOf(hash, line, { unasked: UNASKED_MS, signal }));
      onTrouble("");
    } catch (error) {
      const gone = signal.aborted ? "Python is gone: run the cell again." : String(error);
      onTrouble(`This view’s code is not here. ${gone}`);
      onMissing(name, gone);
    }
  }
}
