// The sources' access to a Viewer: input overrides, values, blobs, reports to Python, and the order of sources for
// reads.
import { beforeEditsKey } from "../../plan/derived_values.ts";
import type { ViewerHost } from "../feature.ts";
import { PAGE_LOCAL_KINDS, type Source } from "./records.ts";
import type { Feeder } from "./state.ts";

export class InputFeeder implements Feeder {
  private readonly host: ViewerHost;
  /** The sequence number of each source. */
  private readonly sourceNumbers = new WeakMap<object, number>();
  private lastSourceNumber = 0;

  constructor(host: ViewerHost) {
    this.host = host;
  }

  get pageId(): string {
    return this.host.pageId;
  }

  feed(newOverride: Parameters<ViewerHost["feed"]>[0]): Promise<void> {
    // If the source was turned off in this page, Python first adopts the last input.
    const { python, state } = this.host;
    const offered = python?.traitValue("_source") as { source?: unknown } | undefined;
    return this.host.feed(newOverride, state.source.peek() === null && Boolean(offered?.source));
  }

  read(key: string): Promise<Float32Array> {
    return this.host.read(beforeEditsKey(key));
  }

  blob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.host.blob(name);
  }

  release(name: string): void {
    this.host.release(name);
  }

  reportFedInput(isStill: boolean, picturesPerSecond: number): void {
    this.host.python?.send({
      type: "sourceupdate",
      page: this.pageId,
      is_still: isStill,
      rate: picturesPerSecond,
    });
  }

  /** Assign the next sequence number to a new source. */
  registerSource(source: Source | null): void {
    if (source === null || this.sourceNumbers.has(source)) return;
    this.lastSourceNumber += 1;
    this.sourceNumbers.set(source, this.lastSourceNumber);
  }

  /** The current source's sequence number. */
  get currentSourceNumber(): number {
    return this.sourceNumberOf(this.host.state.source.peek());
  }

  /** Whether the input of a source that every page computes itself has not reached the engine yet. */
  isAwaitingInput(sourceNumber: number): boolean {
    const { source, inputOverride, sourceStatus } = this.host.state;
    const { kind } = source.peek() ?? { kind: "" };
    if (kind === "" || PAGE_LOCAL_KINDS.includes(kind)) return false;
    return (
      this.sourceNumberOf(inputOverride.peek()) < sourceNumber &&
      sourceStatus.peek().phase !== "failed"
    );
  }

  private sourceNumberOf(source: object | null): number {
    return source === null ? 0 : (this.sourceNumbers.get(source) ?? 0);
  }
}
