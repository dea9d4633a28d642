// The properties of the part of the drawer that belongs to one kind of source.
import type { Input } from "../../../plan/schema.ts";
import type { Source } from "../records.ts";

/** What each source offers. */
export interface SourcePanelProps<S extends Source> {
  readonly input: Input;
  /** The current source, if it is of this kind. */
  readonly source: S | null;
}
