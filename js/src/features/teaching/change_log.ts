// What is taught as Python and this page have it: each change acts here at once and goes to Python, which says by its
// number that it has heard it. What Python or another page changes comes with a LessonSnapshot; this page's changes that Python
// hadn't heard by then are made of it again.
import { effect, type ReadonlySignal, signal, untracked } from "@preact/signals";
import { joinChunks, splitChunks } from "../../chunks.ts";
import { CHUNK } from "../../messages.ts";
import type { ViewerState } from "../../state.ts";
import { applyChange, EMPTY_LESSON, type Lesson } from "./lesson_changes.ts";
import type { FeatureVersion, LessonChange, LessonSnapshot } from "./records.ts";

export interface ChangeLog {
  readonly lesson: ReadonlySignal<Lesson>;
  submit(change: LessonChange, data?: readonly Uint8Array<ArrayBuffer>[]): void;
  /** Follows Python; returns what ends that. */
  connect(): () => void;
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
}

export interface ChangeLogEvents {
  /** Another teaching: nothing of the one before is left. */
  onReset(): void;
  /** A LessonSnapshot has come: what it names is to be fetched, as long as that is wanted. */
  onSnapshot(listed: Lesson, isWanted: () => boolean): Promise<void>;
  onError(text: string): void;
}

export function createChangeLog(state: ViewerState, events: ChangeLogEvents): ChangeLog {
  const lesson = signal<Lesson>(EMPTY_LESSON);
  /** The teaching that all this is of. */
  let id = "";
  /** What Python has, as far as it is known here, and what it has not heard yet. */
  let base: Lesson = EMPTY_LESSON;
  let pending: { readonly number: number; readonly change: LessonChange }[] = [];
  let number = 0;
  let listings = 0;
  /** How often it was asked for, and what Python and others had changed by then; "" when that is over. */
  let asks = 0;
  let asked = "";
  /** What Python and other pages had changed when its LessonSnapshot was made. */
  let seen = "";

  const record = () => state.teaching.peek();
  const page = (): string => state.feeder.peek()?.page ?? "";
  const show = (): void => {
    lesson.value = pending.reduce((all, { change }) => applyChange(all, change), base);
  };
  /** What Python and others have done, as this page would know it. */
  const others = (turn: number, heard: Readonly<Record<string, number>>): string =>
    JSON.stringify([turn, Object.entries(heard).filter(([name]) => name !== page())]);
  const blob = (name: string): Promise<Uint8Array<ArrayBuffer>> =>
    state.feeder.peek()?.blob(name) ?? Promise.reject(new Error("Python is not connected"));

  function follow(): void {
    const now = state.teaching.value;
    if (now === null) return;
    untracked(() => {
      if (now.id !== id) {
        id = now.id;
        base = EMPTY_LESSON;
        pending = [];
        number = 0;
        seen = asked = "";
        events.onReset();
      }
      const heard = now.acknowledged[page()] ?? 0;
      for (const { number: at, change } of pending)
        if (at <= heard) base = applyChange(base, change);
      pending = pending.filter((one) => one.number > heard);
      show();
      const there = others(now.sequence, now.acknowledged);
      if (there !== seen && there !== asked) void gather(there);
    });
  }

  /** Asks Python for what there is. A later one takes this one's place, which may wait for what Python no longer has. */
  async function gather(there: string): Promise<void> {
    asks += 1;
    asked = there;
    const [mine, own] = [asks, id];
    const isWanted = (): boolean => mine === asks && record()?.id === own;
    try {
      listings += 1;
      const bytes = await blob(`${own}.${listings}`);
      if (!isWanted()) return;
      const listing: LessonSnapshot = JSON.parse(new TextDecoder().decode(bytes));
      const heard = listing.acknowledged[page()] ?? 0;
      pending = pending.filter((one) => one.number > heard);
      base = lessonFromSnapshot(listing);
      seen = others(listing.sequence, listing.acknowledged);
      show();
      await events.onSnapshot(base, isWanted);
    } catch (error) {
      if (!isWanted()) return;
      seen = ""; // some of it is missing: the next that is told asks for all of it
      const why = error instanceof Error ? error.message : String(error);
      events.onError(`The lesson could not be loaded: ${why}`);
    } finally {
      if (isWanted()) asked = "";
    }
  }

  return {
    lesson,
    blob,
    connect: () => effect(follow),
    submit(change, data = []) {
      const now = record();
      if (now === null) return;
      number += 1;
      const send = state.sendLessonChange.peek();
      if (send === null) base = applyChange(base, change);
      else pending = [...pending, { number, change }];
      show();
      if (send === null) return;
      const { buffer, byteLength } = joinChunks(data);
      const parts = splitChunks(buffer, CHUNK);
      const about = {
        type: "lessonupdate",
        page: page(),
        teaching: now.id,
        number,
        change,
      } as const;
      for (const [index, piece] of parts.entries())
        send(
          { ...about, chunk_index: index, chunk_count: parts.length, total_bytes: byteLength },
          piece,
        );
    },
  };
}

function lessonFromSnapshot({ classes, examples, versions, head }: LessonSnapshot): Lesson {
  const nothing: FeatureVersion = { weights_hash: "", edits: "" };
  return {
    classes,
    examples: examples.map(({ id, class_id, version }) => ({
      id,
      classId: class_id,
      version: versions[version] ?? nothing,
    })),
    head,
  };
}
