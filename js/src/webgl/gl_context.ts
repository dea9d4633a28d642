// The interface of a device for utility passes and clocks: its WebGL context, and the context's resources.
import type { Capabilities } from "../plan/runtime.ts";
import type { GlResources } from "./gl_resources.ts";
import type { GlState } from "./gl_state.ts";
import type { ProgramCache } from "./program_cache.ts";

export interface GlContext {
  readonly capabilities: Capabilities;
  readonly gl: WebGL2RenderingContext;
  readonly state: GlState;
  readonly programs: ProgramCache;
  readonly resources: GlResources;
  /** Counts contexts; objects of an earlier context are lost. */
  readonly generation: number;
  /** Throw if objects of context `generation` are no longer usable. */
  check(generation?: number): void;
}
