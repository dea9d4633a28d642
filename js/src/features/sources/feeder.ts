// What sources have of a Viewer: its engine for pictures, blobs, a way to Python, and what reads wait for.
import { beforeKey } from "../../plan/derived_values.ts";
import type { ViewerHost } from "../feature.ts";
import { OF_ONE_PAGE, type Source } from "./records.ts";
import type { Feeder } from "./state.ts";

export class InputFeeder implements Feeder {
  private readonly host: ViewerHost;
  /** When each source came, by a count of them. */
  private readonly sourceNumbers = new WeakMap<object, number>();
  private lastNumber = 0;

  constructor(host: ViewerHost) {
    this.host = host;
  }

  get page(): string {
    return this.host.page;
  }

  feed(fed: Parameters<ViewerHost["feed"]>[0]): Promise<void> {
    // Where it was turned off here, Python first takes over what went in last.
    const { python, state } = this.host;
    const offered = python?.traitValue("_source") as { source?: unknown } | undefined;
    return this.host.feed(fed, state.source.peek() === null && Boolean(offered?.source));
  }

  read(key: string): Promise<Float32Array> {
    return this.host.read(beforeKey(key));
  }

  blob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.host.blob(name);
  }

  release(name: string): void {
    this.host.release(name);
  }

  reportFed(isStill: boolean, rate: number): void {
    this.host.python?.send({ type: "sourceupdate", page: this.page, is_still: isStill, rate });
  }

  /** This is the source from here on. */
  registerSource(source: Source | null): void {
    if (source === null || this.sourceNumbers.has(source)) return;
    this.lastNumber += 1;
    this.sourceNumbers.set(source, this.lastNumber);
  }

  /** The number of the current source, in the order in which sources were set. */
  get currentNumber(): number {
    return this.numberOf(this.host.state.source.peek());
  }

  /** Whether the picture of a source that each page computes is still to go in. */
  isAwaiting(time: number): boolean {
    const { source, inputOverride, sourceStatus } = this.host.state;
    const { kind } = source.peek() ?? { kind: "" };
    if (kind === "" || OF_ONE_PAGE.includes(kind)) return false;
    return this.numberOf(inputOverride.peek()) < time && sourceStatus.peek().phase !== "failed";
  }

  private numberOf(source: object | null): number {
    return source === null ? 0 : (this.sourceNumbers.get(source) ?? 0);
  }
}
