// Keys of values derived from a Plan's by edits: before a value's edits, without edits, the difference, and previews.
import type { Edit } from "./edits.ts";
import { DERIVED_KEY_SEPARATOR } from "./schema.ts";

const deriveKey = (kind: string, key: string): string => `${kind}${DERIVED_KEY_SEPARATOR}${key}`;

/** The value before its own edits, but after those of earlier values. */
export const beforeEditsKey = (key: string): string => deriveKey("before", key);
/** The value in the network without any edits; available after `keepUnedited`. */
export const uneditedKey = (key: string): string => deriveKey("without", key);
/** The value with edits minus the value without edits. */
export const differenceKey = (key: string): string => deriveKey("difference", key);
/** The value after its first `editCount` edits, enabled or not; 0: before all. Available after `keepIntermediates`. */
export const intermediateKey = (key: string, editCount: number): string =>
  deriveKey(`stage ${editCount}`, key);
/** The result of `Session.previewEdits` for the preview with this id. */
export const previewKey = (previewId: number | string): string =>
  deriveKey("preview", `${previewId}`);

/** Split a key into the kind of derived value ("" for the value itself) and the key of the Plan's value. */
export function splitKey(key: string): readonly [what: string, key: string] {
  const at = key.indexOf(DERIVED_KEY_SEPARATOR);
  return at < 0 ? ["", key] : [key.slice(0, at), key.slice(at + DERIVED_KEY_SEPARATOR.length)];
}

/**
 * The key of the Plan's value that this one is derived from, with the same channels; a preview's key is returned
 * unchanged.
 */
export function baseKey(key: string): string {
  const [kind, original] = splitKey(key);
  return kind === "preview" ? key : original;
}

/** The argument of `Session.previewEdits`. */
export interface EditPreview {
  readonly layer: string;
  readonly channel: number;
  readonly image: number;
  readonly edits: readonly Edit[];
}

/** Program number of a value that is read directly, one element per texel. */
export const DIRECT_READ_PROGRAM = -1;
