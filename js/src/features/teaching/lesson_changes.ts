// Reducer of a lesson: applies a change to classes, examples and the head; same rules as features/teaching/lesson.py in
// Python.
import type { ClassifierHead, FeatureVersion, LessonChange, LessonClass } from "./records.ts";

/** A random unique id. */
export const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

export interface Example {
  readonly id: string;
  /** The id of its class. */
  readonly classId: string;
  /** The weights and edits that its features were computed with. */
  readonly version: FeatureVersion;
}

export interface Lesson {
  readonly classes: readonly LessonClass[];
  readonly examples: readonly Example[];
  readonly head: ClassifierHead | null;
}

export const EMPTY_LESSON: Lesson = { classes: [], examples: [], head: null };

/** A change with empty values in the fields it doesn't need. */
export const makeChange = (
  changeFields: Pick<LessonChange, "kind" | "id"> & Partial<LessonChange>,
): LessonChange => ({
  class_id: "",
  text: "",
  version: null,
  head: null,
  ...changeFields,
});

export function applyChange(lesson: Lesson, change: LessonChange): Lesson {
  const { classes, examples, head } = lesson;
  const { kind, id, class_id: classId, text, version } = change;
  const known = classes.some((one) => one.id === id);
  switch (kind) {
    case "class": {
      const made = { id, name: text };
      const all = known ? classes.map((one) => (one.id === id ? made : one)) : [...classes, made];
      return { ...lesson, classes: all };
    }
    case "remove":
      return {
        classes: classes.filter((one) => one.id !== id),
        examples: examples.filter((one) => one.classId !== id),
        head: head?.classes.includes(id) ? null : head,
      };
    case "forget":
      return { ...lesson, examples: examples.filter((one) => one.id !== id) };
    case "example":
      if (version === null || !classes.some((one) => one.id === classId)) return lesson;
      return { ...lesson, examples: [...examples, { id, classId, version }] };
    case "features":
      if (version === null) return lesson;
      return {
        ...lesson,
        examples: examples.map((one) => (one.id === id ? { ...one, version } : one)),
      };
    case "head":
      return { ...lesson, head: change.head };
  }
}
