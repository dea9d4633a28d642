// The connection between the page and Python; written by Python's client.
import { type Signal, signal } from "@preact/signals";
import type { SetPrecision, VerifyResult } from "../messages.ts";
import { type Status, statuses } from "../status.ts";

/** The result of comparing with the framework's own values. */
export interface ParityResult
  extends Pick<VerifyResult, "reference" | "layers" | "non_finite" | "note" | "float16_overflow"> {
  /** Whether the parity check made it, from samples of each layer; else every value was compared. */
  readonly isSampled: boolean;
  /** Whether the framework's model had the bends replayed. */
  readonly hasReplayedEdits?: boolean;
  /** Time of the comparison, in milliseconds since 1970. */
  readonly checkedAtMs: number;
}

export interface ConnectionState {
  readonly status: Signal<Status>;
  readonly parity: Signal<ParityResult | null>;
  /** In a page without Python: the reason why the displayed values cannot be compared; "" if they can. */
  readonly uncheckedReason: Signal<string>;
  /** Request a recompilation of the network with this precision from Python; null without Python. */
  readonly setPrecision: Signal<((precision: SetPrecision["precision"]) => void) | null>;
  /** Whether Python can still be reached; the page also works without it. */
  readonly isConnected: Signal<boolean>;
  /** URL of a snapshot from Python, for a page that cannot draw. */
  readonly snapshotUrl: Signal<string | null>;
  /** Functions that capture each view as a PNG; they reject if that is impossible. */
  readonly viewCaptureCallbacks: Set<() => Promise<Uint8Array<ArrayBuffer>>>;
  /** The viewer's maximum height in CSS pixels; taller content scrolls. */
  readonly maxHeight: Signal<number | null>;
}

export const connectionState = (): ConnectionState => ({
  status: signal(statuses.connecting()),
  parity: signal(null),
  uncheckedReason: signal(""),
  setPrecision: signal(null),
  isConnected: signal(true),
  snapshotUrl: signal(null),
  viewCaptureCallbacks: new Set(),
  maxHeight: signal(null),
});
