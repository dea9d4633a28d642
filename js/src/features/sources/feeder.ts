// What sources have of a Viewer: its engine for pictures, blobs, a way to Python, and what reads wait for.
import { beforeKey } from "../../plan/derived_values.ts";
import type { Host } from "../feature.ts";
import { OF_ONE_PAGE, type Source } from "./records.ts";
import type { Feeder } from "./state.ts";

export class InputFeeder implements Feeder {
  private readonly host: Host;
  /** When each source came, by a count of them. */
  private readonly times = new WeakMap<object, number>();
  private count = 0;

  constructor(host: Host) {
    this.host = host;
  }

  get page(): string {
    return this.host.page;
  }

  feed(fed: Parameters<Host["feed"]>[0]): Promise<void> {
    // Where it was turned off here, Python first takes over what went in last.
    const { python, state } = this.host;
    const offered = python?.trait("_source") as { source?: unknown } | undefined;
    return this.host.feed(fed, state.source.peek() === null && Boolean(offered?.source));
  }

  read(key: string): Promise<Float32Array> {
    return this.host.read(beforeKey(key));
  }

  blob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.host.blob(name);
  }

  drop(name: string): void {
    this.host.drop(name);
  }

  tell(still: boolean, rate: number): void {
    this.host.python?.send({ type: "fed", page: this.page, still, rate });
  }

  /** This is the source from here on. */
  note(source: Source | null): void {
    if (source === null || this.times.has(source)) return;
    this.count += 1;
    this.times.set(source, this.count);
  }

  /** The number of the current source, in the order in which sources were set. */
  get time(): number {
    return this.timeOf(this.host.state.source.peek());
  }

  /** Whether the picture of a source that each page computes is still to go in. */
  awaits(time: number): boolean {
    const { source, fed, sourceStatus } = this.host.state;
    const { kind } = source.peek() ?? { kind: "" };
    if (kind === "" || OF_ONE_PAGE.includes(kind)) return false;
    return this.timeOf(fed.peek()) < time && sourceStatus.peek().phase !== "failed";
  }

  private timeOf(source: object | null): number {
    return source === null ? 0 : (this.times.get(source) ?? 0);
  }
}
