// Unrequested reports from a page to Python: hello, context health, runs, progress, hover target.
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

/** Interval of progress messages from a busy page: each message restarts Python's timeouts. */
const HEARTBEAT_MS = 500;
/** Delay before hello is sent again without a reply; each further delay is twice as long. */
const HELLO_RETRY_MS = 1_000;
/** Minimum interval of hover messages: the pointer moves more often than Python needs. */
const POINTER_INTERVAL_MS = 100;

export interface PageReportEvents {
  /** Hashes of the blobs that are already in the page. */
  heldBlobs(): string[];
  /** Sending to Python failed. */
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
  /** The last context health sent to Python, serialised. */
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
      // The kernel may have been shut down before this page started to watch it.
      warnOnce(`could not reach Python: ${error}`);
      this.events.onDisconnected();
    }
  }

  /** Send hello until Python replies with a Manifest: the message can get lost like any other. */
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

  /** Stop sending hello: Python has replied. */
  stopHello(): void {
    clearTimeout(this.helloTimer);
  }

  /** Start to report the hover target. */
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

  /** Report the state of the graphics context if it has changed. */
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

  /** Report a finished run; `isRemeasured`: it was timed again while the page was idle. */
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

  /** Set the current stage; send it at once if the last message is older than HEARTBEAT_MS. */
  setStage(stage: Progress["stage"], done: number, total: number): void {
    this.stage = { stage, done, total };
    if (performance.now() - this.lastHeartbeatAt > HEARTBEAT_MS) this.sendStage();
  }

  /** End the current stage. */
  clearStage(): void {
    this.stage = undefined;
  }

  /** Stop all timers: Python has disconnected. */
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
