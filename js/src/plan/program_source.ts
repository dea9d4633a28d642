// Input of the compiler: a shader's source and its samplers.
import type { Program } from "./schema.ts";

/** If `vertexSource` is missing, one triangle covers the viewport. */
export interface ProgramSource extends Pick<Program, "name" | "source" | "samplers"> {
  readonly vertexSource?: string;
  /** The text that line numbers in errors refer to, if it is not the whole source. */
  readonly errorLinesSource?: string;
}
