// When the numbers of what runs are to be compared with the reference's once more; by whom is the client's.
import { effect } from "@preact/signals";
import { hidden } from "../plan/schedule.ts";
import type { Engine } from "./types.ts";

/** Some devices compute a first run right and later ones wrong: behind these of the first compared one. */
export const BEHIND_RUNS = [2, 10];
/** And in time, where anything has run since. */
export const EVERY_MS = 120_000;
/** So long without a run is rest. */
export const REST_MS = 1_000;
/** A live source never rests: it is compared between two pictures, so long after a check was due. */
export const LIVE_MS = 5_000;

export interface CheckEvents {
  /** Whether there is something to compare with, and nothing more urgent to do. */
  isReady(): boolean;
  /** A check is due: to be made, and `made` to be called, as soon as there is time. */
  ask(): void;
  /** Whether equal examples differ, where none did before: looked at behind each run, at rest. */
  isApart(): Promise<boolean>;
}

export class Checks {
  private readonly engine: Engine;
  private readonly events: CheckEvents;
  private readonly undo: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** The timer waits for the time of the next check, not for rest. */
  private isLong = false;
  /** The engine's frame that was compared first. */
  private first: number | undefined;
  /** What the last check was of. */
  private last = { frame: -1, losses: 0, at: 0 };
  private ranAt = 0;
  private dueSince: number | undefined;
  /** The last frame in which equal examples were looked at. */
  private looked = -1;
  private looking = false;
  /** How long to wait where something else goes first: each time twice as long, until the next run. */
  private patience = REST_MS;

  constructor(engine: Engine, events: CheckEvents) {
    this.engine = engine;
    this.events = events;
    const stop = effect(() => {
      if (engine.signals.run.value !== null) this.ran();
    });
    const seen = (): void => {
      if (!hidden()) this.wait(REST_MS);
    };
    document.addEventListener("visibilitychange", seen);
    this.undo = () => {
      stop();
      document.removeEventListener("visibilitychange", seen);
    };
  }

  /** Another network, or other numbers to compare with: its first check is to come. */
  restart(): void {
    this.first = undefined;
    this.dueSince = undefined;
    this.last = { frame: -1, losses: 0, at: 0 };
    this.patience = REST_MS;
    this.wait(REST_MS);
  }

  /** What is shown was compared. */
  made(): void {
    const { frame, losses } = this.engine;
    this.first ??= frame;
    this.last = { frame, losses, at: performance.now() };
    this.looked = frame;
    this.dueSince = undefined;
  }

  dispose(): void {
    this.undo();
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private ran(): void {
    this.ranAt = performance.now();
    this.patience = REST_MS;
    if (this.timer === undefined || this.isLong) this.wait(REST_MS);
  }

  private wait(ms: number, isLong = false): void {
    clearTimeout(this.timer);
    this.isLong = isLong;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.look();
    }, ms);
  }

  private get isDue(): boolean {
    const { frame, losses } = this.engine;
    const { first, last } = this;
    if (first === undefined) return frame > 0;
    if (frame === last.frame) return false;
    const passed = (run: number) => last.frame < first + run - 1 && frame >= first + run - 1;
    const isLong = performance.now() - last.at >= EVERY_MS;
    return losses !== last.losses || isLong || BEHIND_RUNS.some(passed);
  }

  private async look(): Promise<void> {
    // A hidden page rests until it is seen again. What was looked at and has not run since needs nothing.
    if (hidden() || this.looking) return;
    const { frame } = this.engine;
    const now = performance.now();
    const rested = now - this.ranAt;
    const { isDue } = this;
    if (isDue) this.dueSince ??= now;
    const isLate = now - (this.dueSince ?? now) >= LIVE_MS;
    if (frame === 0 || (frame === this.last.frame && frame === this.looked)) return;
    if (rested < REST_MS && !isLate) this.wait(REST_MS - rested);
    else if (!this.events.isReady()) {
      this.wait(this.patience, true);
      this.patience = Math.min(2 * this.patience, EVERY_MS);
    } else if (isDue) {
      this.events.ask();
      this.wait(REST_MS); // asked again where something came between
    } else await this.compareEqual(frame);
  }

  private async compareEqual(frame: number): Promise<void> {
    if (this.looked !== frame) {
      this.looking = true;
      const isApart = await this.events.isApart().catch(() => false);
      this.looking = false;
      this.looked = frame;
      if (isApart) this.events.ask();
    }
    const left = this.last.at + EVERY_MS - performance.now();
    if (this.timer === undefined) this.wait(Math.max(REST_MS, left), true);
  }
}
