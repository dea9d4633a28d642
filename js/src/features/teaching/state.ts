// A teaching: what Python says of it, and a way to tell it what changes.
import { type Signal, signal } from "@preact/signals";
import type { LessonUpdate } from "../../messages.ts";
import type { TeachingRecord } from "./records.ts";

export interface TeachingState {
  /** null while nothing is taught. */
  readonly teaching: Signal<TeachingRecord | null>;
  /** null where no Python hears it: what the page has then is all there is. */
  readonly sendLessonChange: Signal<((taught: LessonUpdate, data: ArrayBuffer) => void) | null>;
}

declare module "../../state.ts" {
  interface ViewerState extends TeachingState {}
}

export const teachingState = (): TeachingState => ({
  teaching: signal(null),
  sendLessonChange: signal(null),
});
