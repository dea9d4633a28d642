// State of teaching: Python's record of it, and a function that sends changes to Python.
import { type Signal, signal } from "@preact/signals";
import type { LessonUpdate } from "../../messages.ts";
import type { TeachingRecord } from "./records.ts";

export interface TeachingState {
  /** Null while no lesson is active. */
  readonly teaching: Signal<TeachingRecord | null>;
  /** Null if there is no connection to Python: this page's lesson is then the only copy. */
  readonly sendLessonChange: Signal<((taught: LessonUpdate, data: ArrayBuffer) => void) | null>;
}

declare module "../../state.ts" {
  interface ViewerState extends TeachingState {}
}

export const teachingState = (): TeachingState => ({
  teaching: signal(null),
  sendLessonChange: signal(null),
});
