// What sources are given in a notebook: the engine for pictures, Python for blobs; and what reads wait for.
import { effect } from "@preact/signals";
import type { Engine, Fed } from "../engine/types.ts";
import { OF_ONE_PAGE, type Source } from "../features/sources/records.ts";
import type { Feeder } from "../features/sources/state.ts";
import type { FromPage } from "../messages.ts";
import { beforeKey } from "../plan/derived_values.ts";
import type { ViewerState } from "../state.ts";
import { Blobs } from "./blobs.ts";

export interface FeederEvents {
  send(message: FromPage): void;
  /** The revision of what Python wants to be shown. */
  revision(): number;
  /** Whether Python has no source either. */
  isOff(): boolean;
  /** A read may be answered now, or a picture may go. */
  onNews(): void;
}

const GONE = "Python is gone: run the cell again.";

export class CommFeeder implements Feeder {
  readonly page: string;
  readonly blobs: Blobs;
  /** Call to end it. */
  readonly end: () => void;
  private readonly engine: Engine;
  private readonly state: ViewerState;
  private readonly events: FeederEvents;
  /** When each source came, by a count of them. */
  private readonly times = new WeakMap<Source, number>();
  private count = 0;
  /** What was fed goes as soon as something behind this revision is shown. */
  private leaving: number | undefined;

  constructor(page: string, engine: Engine, state: ViewerState, events: FeederEvents) {
    this.page = page;
    this.engine = engine;
    this.state = state;
    this.events = events;
    this.blobs = new Blobs((blob, parts) => events.send({ type: "need", page, blob, parts }));
    this.end = effect(() => {
      const { source, fed, sourceStatus } = state;
      if (source.value !== null && !this.times.has(source.value)) {
        this.count += 1;
        this.times.set(source.value, this.count);
      }
      fed.value;
      sourceStatus.value;
      events.onNews();
    });
  }

  async feed(fed: Fed | null): Promise<void> {
    this.leaving = undefined;
    if (fed !== null) return this.engine.feed(fed);
    // Where it was turned off here, Python first takes over what went in last.
    const here = this.state.source.peek() === null && !this.events.isOff();
    this.leaving = here ? this.events.revision() : Number.NEGATIVE_INFINITY;
    this.events.onNews();
  }

  read(key: string): Promise<Float32Array> {
    return this.engine.read(beforeKey(key));
  }

  blob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.state.connected.peek() ? this.blobs.get(name) : Promise.reject(new Error(GONE));
  }

  drop(name: string): void {
    this.blobs.drop(name);
  }

  tell(still: boolean, rate: number): void {
    this.events.send({ type: "fed", page: this.page, still, rate });
  }

  /** Python is gone. */
  silence(): void {
    this.blobs.drop(undefined, GONE);
  }

  /** The source of now, for a question that comes now. */
  get time(): number {
    return this.timeOf(this.state.source.peek());
  }

  /** Whether the picture of a source that each page computes is still to go in. */
  awaits(time: number): boolean {
    const { source, fed, sourceStatus } = this.state;
    const { kind } = source.peek() ?? { kind: "" };
    if (kind === "" || OF_ONE_PAGE.includes(kind)) return false;
    return this.timeOf(fed.peek()) < time && sourceStatus.peek().phase !== "failed";
  }

  /** This revision is shown. */
  async shown(revision: number): Promise<void> {
    if (this.leaving === undefined || revision <= this.leaving) return;
    this.leaving = undefined;
    await this.engine.feed(null);
  }

  private timeOf(source: Source | null): number {
    return source === null ? 0 : (this.times.get(source) ?? 0);
  }
}
