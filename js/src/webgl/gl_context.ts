// What small passes and clocks need of a device: its WebGL context, and the objects in it.
import type { Capabilities } from "../plan/runtime.ts";
import type { GlResources } from "./gl_resources.ts";
import type { GlState } from "./gl_state.ts";
import type { Programs } from "./programs.ts";

export interface GlContext {
  readonly capabilities: Capabilities;
  readonly gl: WebGL2RenderingContext;
  readonly state: GlState;
  readonly programs: Programs;
  readonly resources: GlResources;
  /** Counts contexts: what was made in an earlier one is gone. */
  readonly generation: number;
  /** Throws when what was made in context `generation` cannot be used any more. */
  check(generation?: number): void;
}
