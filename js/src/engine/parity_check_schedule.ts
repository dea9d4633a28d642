// Schedule of parity checks: when to compare the current values with the reference. The client makes the comparison.
import { effect } from "@preact/signals";
import { isPageHidden } from "../plan/run_slices.ts";
import type { Engine } from "./types.ts";

/**
 * Check again this many runs after the first checked run: some devices compute the first run right and later ones
 * wrong.
 */
export const CHECK_AFTER_RUNS = [2, 10];
/** Also check after this interval if anything has run since. */
export const CHECK_INTERVAL_MS = 120_000;
/** The engine is idle after this long without a run. */
export const ENGINE_IDLE_AFTER_MS = 1_000;
/** A live source is never idle: its check happens between two pictures, this long after it became due. */
export const LIVE_SOURCE_DELAY_MS = 5_000;

export interface ParityEvents {
  /** Whether a reference exists and no more urgent work is pending. */
  isReadyToCheck(): boolean;
  /** A check is due. The client makes it as soon as possible and calls `markCheckDone`. */
  requestCheck(): void;
  /** Whether equal examples now differ in a value in which they did not before. Called after runs, while idle. */
  hasNewMismatch(): Promise<boolean>;
}

export class ParityScheduler {
  private readonly engine: Engine;
  private readonly events: ParityEvents;
  private readonly cleanup: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether the timer waits for the next check's time rather than for idle time. */
  private isLongWait = false;
  /** `runCount` at the first check. */
  private firstCheckedRun: number | undefined;
  /** The run, context losses and time of the last check. */
  private lastCheck = { frame: -1, losses: 0, at: 0 };
  private lastRunAt = 0;
  private dueSince: number | undefined;
  /** `runCount` when equal examples were last compared. */
  private lastComparedRun = -1;
  private isComparing = false;
  /** Backoff while more urgent work is pending: doubles each time and resets on the next run. */
  private retryMs = ENGINE_IDLE_AFTER_MS;

  constructor(engine: Engine, events: ParityEvents) {
    this.engine = engine;
    this.events = events;
    const stop = effect(() => {
      if (engine.signals.run.value !== null) this.onRun();
    });
    const seen = (): void => {
      if (!isPageHidden()) this.schedule(ENGINE_IDLE_AFTER_MS);
    };
    document.addEventListener("visibilitychange", seen);
    this.cleanup = () => {
      stop();
      document.removeEventListener("visibilitychange", seen);
    };
  }

  /** Restart the schedule for another network or another reference. */
  restart(): void {
    this.firstCheckedRun = undefined;
    this.dueSince = undefined;
    this.lastCheck = { frame: -1, losses: 0, at: 0 };
    this.retryMs = ENGINE_IDLE_AFTER_MS;
    this.schedule(ENGINE_IDLE_AFTER_MS);
  }

  /** Record that the current run was checked. */
  markCheckDone(): void {
    const { runCount, contextLosses } = this.engine;
    this.firstCheckedRun ??= runCount;
    this.lastCheck = { frame: runCount, losses: contextLosses, at: performance.now() };
    this.lastComparedRun = runCount;
    this.dueSince = undefined;
  }

  dispose(): void {
    this.cleanup();
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private onRun(): void {
    this.lastRunAt = performance.now();
    this.retryMs = ENGINE_IDLE_AFTER_MS;
    if (this.timer === undefined || this.isLongWait) this.schedule(ENGINE_IDLE_AFTER_MS);
  }

  private schedule(delayMs: number, isLongWait = false): void {
    clearTimeout(this.timer);
    this.isLongWait = isLongWait;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.poll();
    }, delayMs);
  }

  private get isDue(): boolean {
    const { runCount, contextLosses } = this.engine;
    const { firstCheckedRun, lastCheck } = this;
    if (firstCheckedRun === undefined) return runCount > 0;
    if (runCount === lastCheck.frame) return false;
    const passed = (run: number) =>
      lastCheck.frame < firstCheckedRun + run - 1 && runCount >= firstCheckedRun + run - 1;
    const isLong = performance.now() - lastCheck.at >= CHECK_INTERVAL_MS;
    return contextLosses !== lastCheck.losses || isLong || CHECK_AFTER_RUNS.some(passed);
  }

  private async poll(): Promise<void> {
    // A hidden page waits until it is visible again. A run that was already checked needs no check.
    if (isPageHidden() || this.isComparing) return;
    const { runCount } = this.engine;
    const now = performance.now();
    const rested = now - this.lastRunAt;
    const { isDue } = this;
    if (isDue) this.dueSince ??= now;
    const isLate = now - (this.dueSince ?? now) >= LIVE_SOURCE_DELAY_MS;
    if (runCount === 0 || (runCount === this.lastCheck.frame && runCount === this.lastComparedRun))
      return;
    if (rested < ENGINE_IDLE_AFTER_MS && !isLate) this.schedule(ENGINE_IDLE_AFTER_MS - rested);
    else if (!this.events.isReadyToCheck()) {
      this.schedule(this.retryMs, true);
      this.retryMs = Math.min(2 * this.retryMs, CHECK_INTERVAL_MS);
    } else if (isDue) {
      this.events.requestCheck();
      this.schedule(ENGINE_IDLE_AFTER_MS); // retried if other work came first
    } else await this.compareEqualExamples(runCount);
  }

  private async compareEqualExamples(runCount: number): Promise<void> {
    if (this.lastComparedRun !== runCount) {
      this.isComparing = true;
      const isApart = await this.events.hasNewMismatch().catch(() => false);
      this.isComparing = false;
      this.lastComparedRun = runCount;
      if (isApart) this.events.requestCheck();
    }
    const left = this.lastCheck.at + CHECK_INTERVAL_MS - performance.now();
    if (this.timer === undefined) this.schedule(Math.max(ENGINE_IDLE_AFTER_MS, left), true);
  }
}
