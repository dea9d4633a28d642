// Input of the compiler: a shader's source and its samplers.
import type { Program } from "./schema.ts";

/** If `vertex` is missing, one triangle covers the viewport. */
export interface ProgramSource extends Pick<Program, "name" | "source" | "samplers"> {
  readonly vertex?: string;
  /** The text that line numbers in errors refer to, if it is not the whole source. */
  readonly errorSource?: string;
}
