// Sources as a page makes them itself, and what stands behind a record in this page alone: a file, a click.
import { DEFAULTS, type Source, type SourceKindName, type SourceOf } from "./records.ts";

/** A record in its own order of fields, as Python writes it. */
export const makeSource = <K extends SourceKindName>(
  kind: K,
  input: string,
  part: Partial<SourceOf<K>> = {},
): SourceOf<K> => ({ ...DEFAULTS[kind], input, ...part });

/** A file that was chosen, dropped or pasted, by the record that stands for it. */
export const sourceFiles = new WeakMap<Source, Blob>();

/** Whoever reads this wants little to move: live sources begin paused. */
export const prefersReducedMotion = (): boolean =>
  matchMedia("(prefers-reduced-motion: reduce)").matches;
