// When the numbers of what runs are to be compared with the reference's once more; by whom is the client's.
import { effect } from "@preact/signals";
import { isPageHidden } from "../plan/run_slices.ts";
import type { Engine } from "./types.ts";

/** Some devices compute a first run right and later ones wrong: behind these of the first compared one. */
export const CHECK_AFTER_RUNS = [2, 10];
/** And in time, where anything has run since. */
export const CHECK_INTERVAL_MS = 120_000;
/** So long without a run is rest. */
export const IDLE_MS = 1_000;
/** A live source never rests: it is compared between two pictures, so long after a check was due. */
export const LIVE_DELAY_MS = 5_000;

export interface ParityEvents {
  /** Whether there is something to compare with, and nothing more urgent to do. */
  isReady(): boolean;
  /** A check is due: to be made, and `checkDone` to be called, as soon as there is time. */
  requestCheck(): void;
  /** Whether equal examples differ, where none did before: looked at behind each run, at rest. */
  hasNewMismatch(): Promise<boolean>;
}

export class ParityScheduler {
  private readonly engine: Engine;
  private readonly events: ParityEvents;
  private readonly cleanup: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** The timer waits for the time of the next check, not for rest. */
  private isLongWait = false;
  /** The engine's frame that was compared first. */
  private firstCheckedRun: number | undefined;
  /** What the last check was of. */
  private lastCheck = { frame: -1, losses: 0, at: 0 };
  private lastRunAt = 0;
  private dueSince: number | undefined;
  /** The last frame in which equal examples were looked at. */
  private lastComparedRun = -1;
  private isComparing = false;
  /** How long to wait where something else goes first: each time twice as long, until the next run. */
  private retryMs = IDLE_MS;

  constructor(engine: Engine, events: ParityEvents) {
    this.engine = engine;
    this.events = events;
    const stop = effect(() => {
      if (engine.signals.run.value !== null) this.onRun();
    });
    const seen = (): void => {
      if (!isPageHidden()) this.schedule(IDLE_MS);
    };
    document.addEventListener("visibilitychange", seen);
    this.cleanup = () => {
      stop();
      document.removeEventListener("visibilitychange", seen);
    };
  }

  /** Another network, or other numbers to compare with: its first check is to come. */
  restart(): void {
    this.firstCheckedRun = undefined;
    this.dueSince = undefined;
    this.lastCheck = { frame: -1, losses: 0, at: 0 };
    this.retryMs = IDLE_MS;
    this.schedule(IDLE_MS);
  }

  /** What is shown was compared. */
  checkDone(): void {
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
    this.retryMs = IDLE_MS;
    if (this.timer === undefined || this.isLongWait) this.schedule(IDLE_MS);
  }

  private schedule(ms: number, isLong = false): void {
    clearTimeout(this.timer);
    this.isLongWait = isLong;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.poll();
    }, ms);
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
    // A hidden page rests until it is seen again. What was looked at and has not run since needs nothing.
    if (isPageHidden() || this.isComparing) return;
    const { runCount } = this.engine;
    const now = performance.now();
    const rested = now - this.lastRunAt;
    const { isDue } = this;
    if (isDue) this.dueSince ??= now;
    const isLate = now - (this.dueSince ?? now) >= LIVE_DELAY_MS;
    if (runCount === 0 || (runCount === this.lastCheck.frame && runCount === this.lastComparedRun))
      return;
    if (rested < IDLE_MS && !isLate) this.schedule(IDLE_MS - rested);
    else if (!this.events.isReady()) {
      this.schedule(this.retryMs, true);
      this.retryMs = Math.min(2 * this.retryMs, CHECK_INTERVAL_MS);
    } else if (isDue) {
      this.events.requestCheck();
      this.schedule(IDLE_MS); // asked again where something came between
    } else await this.compareEqualExamples(runCount);
  }

  private async compareEqualExamples(frame: number): Promise<void> {
    if (this.lastComparedRun !== frame) {
      this.isComparing = true;
      const isApart = await this.events.hasNewMismatch().catch(() => false);
      this.isComparing = false;
      this.lastComparedRun = frame;
      if (isApart) this.events.requestCheck();
    }
    const left = this.lastCheck.at + CHECK_INTERVAL_MS - performance.now();
    if (this.timer === undefined) this.schedule(Math.max(IDLE_MS, left), true);
  }
}
