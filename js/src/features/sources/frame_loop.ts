// Frame loop: the next frame is taken once the last has run; frames in between are dropped, none is queued.
import { delay } from "./input_slot.ts";

/** Minimum interval between frames if no rate is set: a screen's refresh interval. */
const MIN_INTERVAL_MS = 1000 / 60;

export interface FrameLoop {
  /** Stop the loop; resolves when the frame in progress has ended. */
  stop(): Promise<void>;
}

/**
 * Call `processFrame` repeatedly until stopped, at most `maxFrameRate` times a second and never concurrently.
 * `waitForFrame` resolves when a new frame is available.
 */
export function startFrameLoop(
  maxFrameRate: () => number,
  waitForFrame: (signal: AbortSignal) => Promise<void>,
  processFrame: (signal: AbortSignal) => Promise<void>,
): FrameLoop {
  const ending = new AbortController();
  const { signal } = ending;
  const go = async (): Promise<void> => {
    let due = performance.now();
    while (!signal.aborted) {
      await waitForFrame(signal);
      const wait = due - performance.now();
      if (wait > 1) await delay(wait, signal);
      if (signal.aborted) return;
      const gap = maxFrameRate() > 0 ? 1000 / maxFrameRate() : MIN_INTERVAL_MS;
      // Measured from the due time: timers fire late, and the rate still holds.
      due = Math.max(due, performance.now() - gap) + gap;
      await processFrame(signal);
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

/** Track a video's displayed frames: `waitForFrame` resolves when there is a frame that was not taken. */
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
  // Browsers without requestVideoFrameCallback: compare the video's time on each animation frame.
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
    /** Mark the current frame as taken. */
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
