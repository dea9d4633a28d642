// Values that follow from a Plan's by edits: before its own, without any, the difference, and previews.
import type { Edit } from "./edits.ts";
import { DERIVED } from "./schema.ts";

const deriveKey = (what: string, key: string): string => `${what}${DERIVED}${key}`;

/** The value before its own edits; those before it have acted. */
export const beforeKey = (key: string): string => deriveKey("before", key);
/** The value of the network without any edit, where `keepUnedited` keeps it. */
export const uneditedKey = (key: string): string => deriveKey("without", key);
/** With its edits − without any. */
export const differenceKey = (key: string): string => deriveKey("difference", key);
/** The value after its first `k` edits, switched on or off, where `keepStages` keeps it; 0: before all. */
export const stageKey = (key: string, k: number): string => deriveKey(`stage ${k}`, key);
/** What `Session.previewEdits` has made of edit number `k`. */
export const previewKey = (k: number | string): string => deriveKey("preview", `${k}`);

/** The Plan's value that is meant where nothing is edited, and what is asked of it: "" for the value itself. */
export function splitKey(key: string): readonly [what: string, key: string] {
  const at = key.indexOf(DERIVED);
  return at < 0 ? ["", key] : [key.slice(0, at), key.slice(at + DERIVED.length)];
}

/** The Plan's value that a value follows from, whose channels it has; of a preview itself. */
export function baseKey(key: string): string {
  const [what, original] = splitKey(key);
  return what === "preview" ? key : original;
}

/** What is asked for as `Session.previewEdits` has it. */
export interface EditPreview {
  readonly layer: string;
  readonly channel: number;
  readonly image: number;
  readonly edits: readonly Edit[];
}

/** A program's number of a value that is read as it lies, an element a texel. */
export const DIRECT_READ = -1;
