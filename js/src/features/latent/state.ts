// The code of a latent while it moves, and what the workbench has of the page's engine.
import { type Signal, signal } from "@preact/signals";
import type { Session } from "../../plan/runtime.ts";
import type { SourceState } from "../sources/state.ts";

export interface LatentState {
  /** The code of now, where it is ahead of the source's: people drag, Python is told ten times a second. */
  readonly code: Signal<readonly number[] | null>;
  /** Opens another session of what is shown, to try codes in beside it; null where nothing can be run. */
  readonly twin: Signal<(() => Promise<Session>) | null>;
}

declare module "../../state.ts" {
  interface ViewerState extends LatentState {}
}

export const latentState = (): LatentState => ({ code: signal(null), twin: signal(null) });

type State = LatentState & Pick<SourceState, "source">;

const TELL_MS = 100;
const telling = new WeakSet<LatentState["code"]>();

/** Moves a latent's code: the engine has it at once, the source and with it Python soon, and always the last one. */
export function moveTo(state: State, code: readonly number[]): void {
  state.code.value = code;
  if (telling.has(state.code)) return;
  telling.add(state.code);
  setTimeout(() => {
    telling.delete(state.code);
    const source = state.source.peek();
    const now = state.code.peek();
    if (source?.kind === "latent" && now !== null) state.source.value = { ...source, code: now };
  }, TELL_MS);
}
