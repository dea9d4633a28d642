// Props of the drawer panels, one panel for each source kind.
import type { Input } from "../../../plan/schema.ts";
import type { Source } from "../records.ts";

/** Props of every source panel. */
export interface SourcePanelProps<S extends Source> {
  readonly input: Input;
  /** The current source, if it is of this kind. */
  readonly source: S | null;
}
