// What a page tells Python by itself: hello, how its context is, runs, progress, what is under the pointer.
import type { AnyModel } from "@anywidget/types";
import { effect } from "@preact/signals";
import type { Engine } from "../engine/types.ts";
import {
  type FromPage,
  type HoverTarget,
  PACKAGE_VERSION,
  PROTOCOL,
  type Progress,
} from "../messages.ts";
import type { RunInfo } from "../plan/runtime.ts";
import type { ViewerState } from "../state.ts";
import { throttle, warnOnce } from "./message_codec.ts";
import { hostName } from "./notebook_host.ts";

/** Python's time-outs start again with each message; it hears from a busy page this often. */
const HEARTBEAT_MS = 500;
/** Without an answer a hello is said again after this long, then twice as long, and so on. */
const HELLO_RETRY_MS = 1_000;
/** A pointer moves more often than anybody in Python needs to know. */
const POINTER_INTERVAL_MS = 100;

export interface PageReportEvents {
  /** Blobs that are here already. */
  heldBlobs(): string[];
  /** Python could not be reached. */
  onDisconnected(): void;
}

export class PageReports {
  private readonly model: AnyModel;
  private readonly page: string;
  private readonly engine: Engine;
  private readonly state: ViewerState;
  private readonly events: PageReportEvents;
  private readonly cleanups: (() => void)[] = [];
  private readonly heartbeat: ReturnType<typeof setInterval>;
  private helloTimer: ReturnType<typeof setTimeout> | undefined;
  /** What Python was told of the context last. */
  private lastHealth = "";
  private stage: Pick<Progress, "stage" | "done" | "total"> | undefined;
  private lastHeartbeatAt = 0;

  constructor(
    model: AnyModel,
    page: string,
    engine: Engine,
    state: ViewerState,
    events: PageReportEvents,
  ) {
    this.model = model;
    this.page = page;
    this.engine = engine;
    this.state = state;
    this.events = events;
    this.heartbeat = setInterval(() => this.sendStage(), HEARTBEAT_MS);
  }

  send(message: FromPage, buffers?: ArrayBuffer[]): void {
    if (!this.state.isConnected.peek()) return;
    try {
      this.model.send(message, undefined, buffers);
    } catch (error) {
      // The kernel is gone, perhaps since before this page could be told of it.
      warnOnce(`could not reach Python: ${error}`);
      this.events.onDisconnected();
    }
  }

  /** Says hello until Python answers with a Manifest: a frame can get lost, as any other. */
  sendHello(wait = HELLO_RETRY_MS): void {
    clearTimeout(this.helloTimer);
    const { device, unavailable } = this.engine;
    this.send({
      type: "hello",
      page: this.page,
      version: PACKAGE_VERSION,
      protocol: PROTOCOL,
      cached_blobs: this.events.heldBlobs(),
      renderer: device?.capabilities.renderer ?? "",
      target: device?.capabilities.target ?? null,
      problem: unavailable === undefined ? "" : `${unavailable.message} (${unavailable.detail})`,
      browser: navigator.userAgent.slice(0, 1000),
      host: hostName(),
    });
    if (this.state.isConnected.peek()) {
      this.helloTimer = setTimeout(() => this.sendHello(2 * wait), wait);
    }
  }

  /** Python has answered. */
  stopHello(): void {
    clearTimeout(this.helloTimer);
  }

  /** From now on, what is under the reader's pointer. */
  reportPointer(): void {
    const { page } = this;
    const pointed = throttle<HoverTarget | null>(POINTER_INTERVAL_MS, (target) =>
      this.send({ type: "pointerhover", page, target }),
    );
    let first = true;
    this.cleanups.push(
      effect(() => {
        const at = this.state.pointerSpot.value;
        if (!first) pointed.take(at);
        first = false;
      }),
      pointed.dispose,
    );
  }

  /** How the graphics context is, when anything of that has changed. */
  reportHealth(): void {
    const { bytes, contextLosses, viewCount, device } = this.engine;
    const { page } = this;
    const lost = device?.isLost === true;
    const words = `${lost} ${contextLosses} ${bytes} ${viewCount}`;
    if (words === this.lastHealth) return;
    this.lastHealth = words;
    this.send({
      type: "contexthealth",
      page,
      lost,
      losses: contextLosses,
      bytes,
      views: viewCount,
    });
  }

  /** A run has ended; `isRemeasured`: it was measured once more, at rest. */
  reportRun({ ms, clock, passes }: RunInfo, revision: number, isRemeasured: boolean): void {
    this.send({
      type: "runreport",
      page: this.page,
      revision,
      ms,
      timing: clock,
      passes,
      is_remeasured: isRemeasured,
    });
  }

  /** Says what is going on; Python hears it at once when the last word is long ago. */
  setStage(stage: Progress["stage"], done: number, total: number): void {
    this.stage = { stage, done, total };
    if (performance.now() - this.lastHeartbeatAt > HEARTBEAT_MS) this.sendStage();
  }

  /** Nothing is going on any more. */
  clearStage(): void {
    this.stage = undefined;
  }

  /** Nobody hears. */
  stopTimers(): void {
    clearInterval(this.heartbeat);
    clearTimeout(this.helloTimer);
  }

  dispose(): void {
    this.stopTimers();
    for (const undo of this.cleanups) undo();
  }

  private sendStage(): void {
    if (this.stage === undefined) return;
    this.lastHeartbeatAt = performance.now();
    this.send({ type: "progress", page: this.page, ...this.stage });
  }
}
