// The runtime of this package's pages: WebGL 2.
import type { Runtime } from "../plan/runtime.ts";
import { openDevice } from "./device.ts";
import { resamplePicture } from "./input_feed.ts";
import { compileAhead } from "./prefetch.ts";
import { createSession } from "./session.ts";

export const WEBGL: Runtime = { openDevice, createSession, compileAhead, resamplePicture };
