// The code of a latent while it moves, and what the workbench has of the page's engine.
import { type Signal, signal } from "@preact/signals";
import type { Session } from "../../plan/runtime.ts";
import type { SourceState } from "../sources/state.ts";

export interface LatentState {
  /** The code of now, where it is ahead of the source's: people drag, Python is told ten times a second. */
  readonly latentCode: Signal<readonly number[] | null>;
  /** Opens another session of what is shown, to try codes in beside it; null where nothing can be run. */
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

/** Moves a latent's code: the engine has it at once, the source and with it Python soon, and always the last one. */
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
