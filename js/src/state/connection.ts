// How it stands between the page and Python: written by Python's client.
import { type Signal, signal } from "@preact/signals";
import type { SetPrecision, VerifyResult } from "../messages.ts";
import { type Status, statuses } from "../status.ts";

/** The comparison with the framework's own values, when it was made. */
export interface ParityResult
  extends Pick<VerifyResult, "reference" | "layers" | "non_finite" | "note" | "float16_overflow"> {
  /** By the parity check, of stretches of each layer; else of every value there is. */
  readonly isSampled: boolean;
  /** Of the model with the bends replayed. */
  readonly isWithEdits?: boolean;
  /** When it was made, in milliseconds since 1970. */
  readonly time: number;
}

export interface ConnectionState {
  readonly status: Signal<Status>;
  readonly parity: Signal<ParityResult | null>;
  /** Why what is shown cannot be compared, in a page without Python; "" where it can. */
  readonly uncheckedReason: Signal<string>;
  /** Asks Python to compile the network again with this precision; null without Python. */
  readonly setPrecision: Signal<((precision: SetPrecision["precision"]) => void) | null>;
  /** Whether Python can still be asked; the page goes on without it. */
  readonly isConnected: Signal<boolean>;
  /** URL of a snapshot from Python, for a page that cannot draw. */
  readonly snapshotUrl: Signal<string | null>;
  /** Each view's way to a picture of itself, a PNG; it rejects where that cannot be had. */
  readonly viewCaptures: Set<() => Promise<Uint8Array<ArrayBuffer>>>;
  /** The tallest the viewer may get, in CSS pixels; its content scrolls then. */
  readonly maxHeight: Signal<number | null>;
}

export const connectionState = (): ConnectionState => ({
  status: signal(statuses.connecting()),
  parity: signal(null),
  uncheckedReason: signal(""),
  setPrecision: signal(null),
  isConnected: signal(true),
  snapshotUrl: signal(null),
  viewCaptures: new Set(),
  maxHeight: signal(null),
});
