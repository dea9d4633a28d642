// A loop in Python that this page follows.
import { type Signal, signal } from "@preact/signals";
import type { WeightTextures } from "../../engine/types.ts";
import type { MirrorFrame } from "../../messages.ts";

export interface MirrorState {
  /** Takes a message of the loop, and gives the weights once all parts of them are here; null while none is followed. */
  readonly weightReceiver: Signal<
    ((message: MirrorFrame, data: Uint8Array<ArrayBuffer>) => WeightTextures | undefined) | null
  >;
}

declare module "../../state.ts" {
  interface ViewerState extends MirrorState {}
}

export const mirrorState = (): MirrorState => ({ weightReceiver: signal(null) });
