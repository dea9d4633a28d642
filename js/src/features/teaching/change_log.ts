// Optimistic change log of a lesson, shared by Python and this page. Each change applies here at once and is sent to
// Python, which acknowledges it by number. Changes by Python or another page arrive with a LessonSnapshot; changes of
// this page that Python had not acknowledged by then are reapplied to it.
import { effect, type ReadonlySignal, signal, untracked } from "@preact/signals";
import { joinChunks, splitChunks } from "../../binary_chunks.ts";
import { CHUNK_BYTES } from "../../messages.ts";
import type { ViewerState } from "../../state.ts";
import { applyChange, EMPTY_LESSON, type Lesson } from "./lesson_changes.ts";
import type { FeatureVersion, LessonChange, LessonSnapshot } from "./records.ts";

export interface ChangeLog {
  readonly lesson: ReadonlySignal<Lesson>;
  submit(change: LessonChange, data?: readonly Uint8Array<ArrayBuffer>[]): void;
  /** Start to follow Python. Returns a callback that stops this. */
  connect(): () => void;
  blob(name: string): Promise<Uint8Array<ArrayBuffer>>;
}

export interface ChangeLogEvents {
  /** Another lesson has started: discard all data of the previous one. */
  onReset(): void;
  /** A LessonSnapshot has arrived: fetch the blobs that it lists while `isWanted()` holds. */
  onSnapshot(snapshotLesson: Lesson, isWanted: () => boolean): Promise<void>;
  onError(text: string): void;
}

export function createChangeLog(state: ViewerState, events: ChangeLogEvents): ChangeLog {
  const lesson = signal<Lesson>(EMPTY_LESSON);
  /** The id of the current lesson. */
  let id = "";
  /** Python's last known state, and this page's changes that Python has not acknowledged. */
  let base: Lesson = EMPTY_LESSON;
  let pending: { readonly number: number; readonly change: LessonChange }[] = [];
  let number = 0;
  let snapshotNumber = 0;
  /** The number of snapshot requests, and the remote version of the one in flight; "" if there is none. */
  let asks = 0;
  let requestedVersion = "";
  /** The remote version of the last snapshot. */
  let syncedVersion = "";

  const record = () => state.teaching.peek();
  const page = (): string => state.feeder.peek()?.pageId ?? "";
  const show = (): void => {
    lesson.value = pending.reduce((all, { change }) => applyChange(all, change), base);
  };
  /** A key for the changes by Python and other pages. */
  const remoteVersionKey = (turn: number, heard: Readonly<Record<string, number>>): string =>
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
        syncedVersion = requestedVersion = "";
        events.onReset();
      }
      const heard = now.acknowledged[page()] ?? 0;
      for (const { number: at, change } of pending)
        if (at <= heard) base = applyChange(base, change);
      pending = pending.filter((one) => one.number > heard);
      show();
      const remoteVersion = remoteVersionKey(now.sequence, now.acknowledged);
      if (remoteVersion !== syncedVersion && remoteVersion !== requestedVersion)
        void gather(remoteVersion);
    });
  }

  /**
   * Request a snapshot from Python. A later request supersedes this one, which may be waiting for data that Python no
   * longer has.
   */
  async function gather(remoteVersion: string): Promise<void> {
    asks += 1;
    requestedVersion = remoteVersion;
    const [mine, own] = [asks, id];
    const isWanted = (): boolean => mine === asks && record()?.id === own;
    try {
      snapshotNumber += 1;
      const bytes = await blob(`${own}.${snapshotNumber}`);
      if (!isWanted()) return;
      const snapshot: LessonSnapshot = JSON.parse(new TextDecoder().decode(bytes));
      const heard = snapshot.acknowledged[page()] ?? 0;
      pending = pending.filter((one) => one.number > heard);
      base = lessonFromSnapshot(snapshot);
      syncedVersion = remoteVersionKey(snapshot.sequence, snapshot.acknowledged);
      show();
      await events.onSnapshot(base, isWanted);
    } catch (error) {
      if (!isWanted()) return;
      syncedVersion = ""; // incomplete: the next notification requests a full snapshot
      const why = error instanceof Error ? error.message : String(error);
      events.onError(`The lesson could not be loaded: ${why}`);
    } finally {
      if (isWanted()) requestedVersion = "";
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
      const parts = splitChunks(buffer, CHUNK_BYTES);
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
