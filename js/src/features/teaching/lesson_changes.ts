// What a change makes of classes, examples and the head; features/teaching/lesson.py in Python does the same.
import type { ClassifierHead, FeatureVersion, LessonChange, LessonClass } from "./records.ts";

/** A name that nothing else has. */
export const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

export interface Example {
  readonly id: string;
  /** The id of its class. */
  readonly classId: string;
  /** What its features were computed by. */
  readonly version: FeatureVersion;
}

export interface Lesson {
  readonly classes: readonly LessonClass[];
  readonly examples: readonly Example[];
  readonly head: ClassifierHead | null;
}

export const EMPTY_LESSON: Lesson = { classes: [], examples: [], head: null };

/** A change with nothing in what it doesn't need. */
export const makeChange = (
  part: Pick<LessonChange, "kind" | "id"> & Partial<LessonChange>,
): LessonChange => ({
  class_id: "",
  text: "",
  version: null,
  head: null,
  ...part,
});

export function applyChange(taught: Lesson, change: LessonChange): Lesson {
  const { classes, examples, head } = taught;
  const { kind, id, class_id: classId, text, version } = change;
  const known = classes.some((one) => one.id === id);
  switch (kind) {
    case "class": {
      const made = { id, name: text };
      const all = known ? classes.map((one) => (one.id === id ? made : one)) : [...classes, made];
      return { ...taught, classes: all };
    }
    case "remove":
      return {
        classes: classes.filter((one) => one.id !== id),
        examples: examples.filter((one) => one.classId !== id),
        head: head?.classes.includes(id) ? null : head,
      };
    case "forget":
      return { ...taught, examples: examples.filter((one) => one.id !== id) };
    case "example":
      if (version === null || !classes.some((one) => one.id === classId)) return taught;
      return { ...taught, examples: [...examples, { id, classId, version }] };
    case "features":
      if (version === null) return taught;
      return {
        ...taught,
        examples: examples.map((one) => (one.id === id ? { ...one, version } : one)),
      };
    case "head":
      return { ...taught, head: change.head };
  }
}
