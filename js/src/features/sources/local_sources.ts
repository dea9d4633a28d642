// Sources created in the page, and page-local data behind a record, such as a file.
import { DEFAULTS, type Source, type SourceKindName, type SourceOf } from "./records.ts";

/** Create a record with its fields in the order in which Python writes them. */
export const makeSource = <K extends SourceKindName>(
  kind: K,
  input: string,
  recordFields: Partial<SourceOf<K>> = {},
): SourceOf<K> => ({ ...DEFAULTS[kind], input, ...recordFields });

/** The selected, dropped or pasted file of each record. */
export const sourceFiles = new WeakMap<Source, Blob>();

/** Whether the reader prefers reduced motion: live sources then start paused. */
export const prefersReducedMotion = (): boolean =>
  matchMedia("(prefers-reduced-motion: reduce)").matches;
