// What the latent workbench has of the page's engine.
import { type Signal, signal } from "@preact/signals";
import type { Session } from "../gl/types.ts";

export interface LatentState {
  /** Opens another session of what is shown, to try codes in beside it; null where nothing can be run. */
  readonly twin: Signal<(() => Promise<Session>) | null>;
}

export const latentState = (): LatentState => ({ twin: signal(null) });
