// What a change makes of classes, examples and the head; features/teaching/lesson.py in Python does the same.
import type { Change, TaughtClass, TaughtHead, TaughtNetwork } from "./records.ts";

/** A name that nothing else has. */
export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

export interface Example {
  readonly id: string;
  /** The id of its class. */
  readonly of: string;
  /** What its features were computed by. */
  readonly network: TaughtNetwork;
}

export interface Taught {
  readonly classes: readonly TaughtClass[];
  readonly examples: readonly Example[];
  readonly head: TaughtHead | null;
}

export const NOTHING: Taught = { classes: [], examples: [], head: null };

/** A change with nothing in what it doesn't need. */
export const changeOf = (part: Pick<Change, "what" | "id"> & Partial<Change>): Change => ({
  of: "",
  text: "",
  network: null,
  head: null,
  ...part,
});

export function changed(taught: Taught, change: Change): Taught {
  const { classes, examples, head } = taught;
  const { what, id, of, text, network } = change;
  const known = classes.some((one) => one.id === id);
  switch (what) {
    case "class": {
      const made = { id, name: text };
      const all = known ? classes.map((one) => (one.id === id ? made : one)) : [...classes, made];
      return { ...taught, classes: all };
    }
    case "remove":
      return {
        classes: classes.filter((one) => one.id !== id),
        examples: examples.filter((one) => one.of !== id),
        head: head?.classes.includes(id) ? null : head,
      };
    case "forget":
      return { ...taught, examples: examples.filter((one) => one.id !== id) };
    case "example":
      if (network === null || !classes.some((one) => one.id === of)) return taught;
      return { ...taught, examples: [...examples, { id, of, network }] };
    case "features":
      if (network === null) return taught;
      return {
        ...taught,
        examples: examples.map((one) => (one.id === id ? { ...one, network } : one)),
      };
    case "head":
      return { ...taught, head: change.head };
  }
}
