// Unrequested reports from a page to Python: hello, context health, runs, progress, hover target.
import type { AnyModel } from "@anywidget/types";
import { effect } from "@preact/signals";
import type { Engine } from "../engine/types.ts";
import {
  type FromPage,
  type HoverTarget,
  PACKAGE_VERSION,
  PROTOCOL_DIGEST,
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
  cachedBlobHashes(): string[];
  /** Sending to Python failed. */
  onDisconnected(): void;
}

export class PageReports {
  private readonly model: AnyModel;
  private readonly pageId: string;
  private readonly engine: Engine;
  private readonly state: ViewerState;
  private readonly events: PageReportEvents;
  private readonly cleanups: (() => void)[] = [];
  private readonly heartbeat: ReturnType<typeof setInterval>;
  private helloTimer: ReturnType<typeof setTimeout> | undefined;
  /** The last context health sent to Python, serialised. */
  private lastSentHealth = "";
  private progress: Pick<Progress, "stage" | "done" | "total"> | undefined;
  private lastHeartbeatAt = 0;

  constructor(
    model: AnyModel,
    pageId: string,
    engine: Engine,
    state: ViewerState,
    events: PageReportEvents,
  ) {
    this.model = model;
    this.pageId = pageId;
    this.engine = engine;
    this.state = state;
    this.events = events;
    this.heartbeat = setInterval(() => this.sendProgress(), HEARTBEAT_MS);
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
  sendHello(retryMs = HELLO_RETRY_MS): void {
    clearTimeout(this.helloTimer);
    const { device, deviceError } = this.engine;
    this.send({
      type: "hello",
      page: this.pageId,
      version: PACKAGE_VERSION,
      protocol: PROTOCOL_DIGEST,
      cached_blobs: this.events.cachedBlobHashes(),
      renderer: device?.capabilities.renderer ?? "",
      target: device?.capabilities.target ?? null,
      problem: deviceError === undefined ? "" : `${deviceError.message} (${deviceError.detail})`,
      browser: navigator.userAgent.slice(0, 1000),
      host: hostName(),
    });
    if (this.state.isConnected.peek()) {
      this.helloTimer = setTimeout(() => this.sendHello(2 * retryMs), retryMs);
    }
  }

  /** Stop sending hello: Python has replied. */
  stopHello(): void {
    clearTimeout(this.helloTimer);
  }

  /** Start to report the hover target. */
  startPointerReports(): void {
    const { pageId } = this;
    const pointed = throttle<HoverTarget | null>(POINTER_INTERVAL_MS, (target) =>
      this.send({ type: "pointerhover", page: pageId, target }),
    );
    let first = true;
    this.cleanups.push(
      effect(() => {
        const at = this.state.hoverTarget.value;
        if (!first) pointed.take(at);
        first = false;
      }),
      pointed.dispose,
    );
  }

  /** Report the state of the graphics context if it has changed. */
  reportContextHealth(): void {
    const { bytes, contextLosses, viewCount, device } = this.engine;
    const { pageId } = this;
    const lost = device?.isLost === true;
    const words = `${lost} ${contextLosses} ${bytes} ${viewCount}`;
    if (words === this.lastSentHealth) return;
    this.lastSentHealth = words;
    this.send({
      type: "contexthealth",
      page: pageId,
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
      page: this.pageId,
      revision,
      ms,
      timing: clock,
      passes,
      is_remeasured: isRemeasured,
    });
  }

  /** Set the current stage; send it at once if the last message is older than HEARTBEAT_MS. */
  setProgress(stage: Progress["stage"], done: number, total: number): void {
    this.progress = { stage, done, total };
    if (performance.now() - this.lastHeartbeatAt > HEARTBEAT_MS) this.sendProgress();
  }

  /** End the current stage. */
  clearProgress(): void {
    this.progress = undefined;
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

  private sendProgress(): void {
    if (this.progress === undefined) return;
    this.lastHeartbeatAt = performance.now();
    this.send({ type: "progress", page: this.pageId, ...this.progress });
  }
}
