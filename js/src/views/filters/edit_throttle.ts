// When edits are sent: one a frame, and the next when the numbers of the one before are back.
import type { WeightEdit } from "../../state/edits.ts";

/** An edit whose numbers aren't back by then is not waited for: Python may have refused it. */
const ACK_TIMEOUT_MS = 400;

export interface EditThrottle {
  /** Sends them when their turn comes, unless others are offered before. */
  schedule(edits: readonly WeightEdit[]): void;
  /** Sends them, or else those that wait, at once. */
  flush(edits?: readonly WeightEdit[]): void;
  /** Numbers are back. */
  acknowledge(): void;
  dispose(): void;
}

export function createEditThrottle(send: (edit: WeightEdit) => void): EditThrottle {
  let waiting: readonly WeightEdit[] = [];
  let sent = Number.NEGATIVE_INFINITY;
  let frame = 0;
  const go = (): void => {
    cancelAnimationFrame(frame);
    frame = 0;
    const edits = waiting;
    waiting = [];
    if (edits.length > 0) sent = performance.now();
    for (const edit of edits) send(edit);
  };
  const look = (): void => {
    if (performance.now() - sent >= ACK_TIMEOUT_MS) go();
    else frame = requestAnimationFrame(look);
  };
  return {
    schedule(edits) {
      waiting = edits;
      if (frame === 0) frame = requestAnimationFrame(look);
    },
    flush(edits = waiting) {
      waiting = edits;
      go();
    },
    acknowledge() {
      sent = Number.NEGATIVE_INFINITY;
    },
    dispose: go,
  };
}
