// The entry of an exported page: the Viewer of the network that the page holds, without Python.
import { FEATURES } from "./features/index.ts";
import { openPage } from "./page/open_page.ts";
import { WEBGL } from "./webgl/runtime.ts";

openPage(WEBGL, FEATURES);
