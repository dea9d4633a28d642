// State of a mirrored Python training loop.
import { type Signal, signal } from "@preact/signals";
import type { WeightDataByTexture } from "../../engine/types.ts";
import type { MirrorFrame } from "../../messages.ts";

export interface MirrorState {
  /**
   * Receive a message of the loop; returns the weights once all their chunks have arrived. Null while no loop is
   * followed.
   */
  readonly weightReceiver: Signal<
    | ((message: MirrorFrame, data: Uint8Array<ArrayBuffer>) => WeightDataByTexture | undefined)
    | null
  >;
}

declare module "../../state.ts" {
  interface ViewerState extends MirrorState {}
}

export const mirrorState = (): MirrorState => ({ weightReceiver: signal(null) });
