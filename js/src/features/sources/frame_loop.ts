// Pictures one after another: the next one once the last has run, those between are dropped and none waits.
import { delay } from "./input_slot.ts";

/** So far apart are pictures at least, where no rate is asked for: as a screen's. */
const MIN_INTERVAL_MS = 1000 / 60;

export interface FrameLoop {
  /** Resolves when what is under way has ended. */
  stop(): Promise<void>;
}

/**
 * Calls `once` again and again, `rate` times a second at most and never twice at a time, until it is stopped.
 * `next` waits for there to be something new.
 */
export function startFrameLoop(
  rate: () => number,
  next: (signal: AbortSignal) => Promise<void>,
  once: (signal: AbortSignal) => Promise<void>,
): FrameLoop {
  const ending = new AbortController();
  const { signal } = ending;
  const go = async (): Promise<void> => {
    let due = performance.now();
    while (!signal.aborted) {
      await next(signal);
      const wait = due - performance.now();
      if (wait > 1) await delay(wait, signal);
      if (signal.aborted) return;
      const gap = rate() > 0 ? 1000 / rate() : MIN_INTERVAL_MS;
      // From when it was due: timers are late, and the rate holds all the same.
      due = Math.max(due, performance.now() - gap) + gap;
      await once(signal);
    }
  };
  const ended = go();
  return {
    stop() {
      ending.abort();
      return ended;
    },
  };
}

/** Frames of a video as they are shown: `next` resolves when there is one that was not taken. */
export function trackVideoFrames(video: HTMLVideoElement) {
  let shown = 0;
  let taken = 0;
  let wake: () => void = () => undefined;
  let handle = 0;
  let timer = 0;
  let closed = false;
  const note = (): void => {
    shown += 1;
    wake();
    ask();
  };
  const ask = (): void => {
    if (closed) return;
    if ("requestVideoFrameCallback" in video) handle = video.requestVideoFrameCallback(note);
    else look();
  };
  // Browsers without that callback: at each frame of the page, where the time has changed.
  let last = -1;
  const look = (): void => {
    timer = requestAnimationFrame(() => {
      if (video.currentTime === last) look();
      else {
        last = video.currentTime;
        note();
      }
    });
  };
  ask();
  return {
    next(signal: AbortSignal): Promise<void> {
      if (shown > taken || signal.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const done = (): void => {
          signal.removeEventListener("abort", done);
          wake = () => undefined;
          resolve();
        };
        wake = done;
        signal.addEventListener("abort", done);
      });
    },
    /** The frame of now is used. */
    take(): void {
      taken = shown;
    },
    stop(): void {
      closed = true;
      cancelAnimationFrame(timer);
      if (handle !== 0) video.cancelVideoFrameCallback(handle);
    },
  };
}
