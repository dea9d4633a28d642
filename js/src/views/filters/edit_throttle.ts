// Throttles weight edits: at most once per frame, and only after the previous edit's values have arrived.
import type { WeightEdit } from "../../state/edits.ts";

/** The longest wait for an edit's values: Python may have refused the edit. */
const ACK_TIMEOUT_MS = 400;

export interface EditThrottle {
  /** Sends the edits at the next opportunity; a later call replaces them. */
  schedule(edits: readonly WeightEdit[]): void;
  /** Sends these edits, or the pending ones, immediately. */
  flush(edits?: readonly WeightEdit[]): void;
  /** The values of the previous edit have arrived. */
  acknowledge(): void;
  dispose(): void;
}

export function createEditThrottle(send: (edit: WeightEdit) => void): EditThrottle {
  let waiting: readonly WeightEdit[] = [];
  let sent = Number.NEGATIVE_INFINITY;
  let frame = 0;
  const sendPending = (): void => {
    cancelAnimationFrame(frame);
    frame = 0;
    const edits = waiting;
    waiting = [];
    if (edits.length > 0) sent = performance.now();
    for (const edit of edits) send(edit);
  };
  const flushWhenReady = (): void => {
    if (performance.now() - sent >= ACK_TIMEOUT_MS) sendPending();
    else frame = requestAnimationFrame(flushWhenReady);
  };
  return {
    schedule(edits) {
      waiting = edits;
      if (frame === 0) frame = requestAnimationFrame(flushWhenReady);
    },
    flush(edits = waiting) {
      waiting = edits;
      sendPending();
    },
    acknowledge() {
      sent = Number.NEGATIVE_INFINITY;
    },
    dispose: sendPending,
  };
}
