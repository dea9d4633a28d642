// What is compiled: a shader's text and its samplers.
import type { Program } from "./schema.ts";

/** Without a `vertex` shader of its own, one triangle covers the viewport. */
export interface ProgramSource extends Pick<Program, "name" | "source" | "samplers"> {
  readonly vertex?: string;
  /** The text that numbered lines of errors are of, where that is not all of the source. */
  readonly errorSource?: string;
}
