// What a page tells Python by itself: hello, how its context is, runs, progress, what is under the pointer.
import type { AnyModel } from "@anywidget/types";
import { effect } from "@preact/signals";
import type { Engine } from "../engine/types.ts";
import { type FromPage, PACKAGE_VERSION, PROTOCOL, type Progress, type Spot } from "../messages.ts";
import type { RunInfo } from "../plan/runtime.ts";
import type { ViewerState } from "../state.ts";
import { hostName } from "./host.ts";
import { spaced, warnOnce } from "./wire.ts";

/** Python's time-outs start again with each message; it hears from a busy page this often. */
const BEAT_MS = 500;
/** Without an answer a hello is said again after this long, then twice as long, and so on. */
const HELLO_MS = 1_000;
/** A pointer moves more often than anybody in Python needs to know. */
const POINTED_MS = 100;

export interface ReportEvents {
  /** Blobs that are here already. */
  have(): string[];
  /** Python could not be reached. */
  onGone(): void;
}

export class Reports {
  private readonly model: AnyModel;
  private readonly page: string;
  private readonly engine: Engine;
  private readonly state: ViewerState;
  private readonly events: ReportEvents;
  private readonly undo: (() => void)[] = [];
  private readonly beat: ReturnType<typeof setInterval>;
  private greeting: ReturnType<typeof setTimeout> | undefined;
  /** What Python was told of the context last. */
  private health = "";
  private stage: Pick<Progress, "stage" | "done" | "total"> | undefined;
  private lastBeat = 0;

  constructor(
    model: AnyModel,
    page: string,
    engine: Engine,
    state: ViewerState,
    events: ReportEvents,
  ) {
    this.model = model;
    this.page = page;
    this.engine = engine;
    this.state = state;
    this.events = events;
    this.beat = setInterval(() => this.tellStage(), BEAT_MS);
  }

  send(message: FromPage, buffers?: ArrayBuffer[]): void {
    if (!this.state.connected.peek()) return;
    try {
      this.model.send(message, undefined, buffers);
    } catch (error) {
      // The kernel is gone, perhaps since before this page could be told of it.
      warnOnce(`could not reach Python: ${error}`);
      this.events.onGone();
    }
  }

  /** Says hello until Python answers with a State: a frame can get lost, as any other. */
  greet(wait = HELLO_MS): void {
    clearTimeout(this.greeting);
    const { device, unavailable } = this.engine;
    this.send({
      type: "hello",
      page: this.page,
      version: PACKAGE_VERSION,
      protocol: PROTOCOL,
      have: this.events.have(),
      renderer: device?.capabilities.renderer ?? "",
      target: device?.capabilities.target ?? null,
      problem: unavailable === undefined ? "" : `${unavailable.message} (${unavailable.detail})`,
      browser: navigator.userAgent.slice(0, 1000),
      host: hostName(),
    });
    if (this.state.connected.peek()) {
      this.greeting = setTimeout(() => this.greet(2 * wait), wait);
    }
  }

  /** Python has answered. */
  greeted(): void {
    clearTimeout(this.greeting);
  }

  /** From now on, what is under the reader's pointer. */
  followPointer(): void {
    const { page } = this;
    const pointed = spaced<Spot | null>(POINTED_MS, (at) =>
      this.send({ type: "pointed", page, at }),
    );
    let first = true;
    this.undo.push(
      effect(() => {
        const at = this.state.pointed.value;
        if (!first) pointed.take(at);
        first = false;
      }),
      pointed.dispose,
    );
  }

  /** How the graphics context is, when anything of that has changed. */
  tellHealth(): void {
    const { bytes, losses, views, device } = this.engine;
    const { page } = this;
    const lost = device?.lost === true;
    const words = `${lost} ${losses} ${bytes} ${views}`;
    if (words === this.health) return;
    this.health = words;
    this.send({ type: "health", page, lost, losses, bytes, views });
  }

  /** A run has ended; `again`: it was measured once more, at rest. */
  tellRun({ ms, clock, passes }: RunInfo, revision: number, again: boolean): void {
    this.send({ type: "ran", page: this.page, revision, ms, timing: clock, passes, again });
  }

  /** Says what is going on; Python hears it at once when the last word is long ago. */
  busy(stage: Progress["stage"], done: number, total: number): void {
    this.stage = { stage, done, total };
    if (performance.now() - this.lastBeat > BEAT_MS) this.tellStage();
  }

  /** Nothing is going on any more. */
  rest(): void {
    this.stage = undefined;
  }

  /** Nobody hears. */
  silence(): void {
    clearInterval(this.beat);
    clearTimeout(this.greeting);
  }

  dispose(): void {
    this.silence();
    for (const undo of this.undo) undo();
  }

  private tellStage(): void {
    if (this.stage === undefined) return;
    this.lastBeat = performance.now();
    this.send({ type: "progress", page: this.page, ...this.stage });
  }
}
