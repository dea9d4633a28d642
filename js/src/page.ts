// Entry point of an exported page: a Viewer of the embedded network, without Python.
import { FEATURES } from "./features/index.ts";
import { openPage } from "./page/open_page.ts";
import { WEBGL_RUNTIME } from "./webgl/runtime.ts";

openPage(WEBGL_RUNTIME, FEATURES);
