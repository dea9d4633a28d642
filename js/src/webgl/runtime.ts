// The runtime of this package's pages: WebGL 2.
import type { Runtime } from "../plan/runtime.ts";
import { compileAhead } from "./compile_ahead.ts";
import { openDevice } from "./gl_device.ts";
import { resamplePicture } from "./picture_upload.ts";
import { createSession } from "./session.ts";

export const WEBGL_RUNTIME: Runtime = { openDevice, createSession, compileAhead, resamplePicture };
