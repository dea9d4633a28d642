// State of a latent source: its code while it moves, and the engine's fork function for the workbench.
import { type Signal, signal } from "@preact/signals";
import type { Session } from "../../plan/runtime.ts";
import type { SourceState } from "../sources/state.ts";

export interface LatentState {
  /**
   * The current code if it is ahead of the source's: a drag changes it at once, Python receives it ten times a second.
   */
  readonly latentCode: Signal<readonly number[] | null>;
  /**
   * Open another session of the shown network, to try codes without changing the view; null if the page cannot run it.
   */
  readonly forkSession: Signal<(() => Promise<Session>) | null>;
}

declare module "../../state.ts" {
  interface ViewerState extends LatentState {}
}

export const latentState = (): LatentState => ({
  latentCode: signal(null),
  forkSession: signal(null),
});

type LatentSourceState = LatentState & Pick<SourceState, "source">;

const SYNC_INTERVAL_MS = 100;
const pendingSync = new WeakSet<LatentState["latentCode"]>();

/** Set a latent's code: at once in the engine, throttled in the source and in Python. The last code is always sent. */
export function setLatentCode(state: LatentSourceState, code: readonly number[]): void {
  state.latentCode.value = code;
  if (pendingSync.has(state.latentCode)) return;
  pendingSync.add(state.latentCode);
  setTimeout(() => {
    pendingSync.delete(state.latentCode);
    const source = state.source.peek();
    const now = state.latentCode.peek();
    if (source?.kind === "latent" && now !== null) state.source.value = { ...source, code: now };
  }, SYNC_INTERVAL_MS);
}
