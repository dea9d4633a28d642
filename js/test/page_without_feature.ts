// An exported page whose list of features lacks the one named in `without`: tests/page/test_page_features.py.
import { FEATURES } from "../src/features/index.ts";
import { openPage } from "../src/page/open_page.ts";
import { WEBGL_RUNTIME } from "../src/webgl/runtime.ts";

const { without } = globalThis as { without?: string };
if (!FEATURES.some(({ name }) => name === without)) throw new Error(`no feature is ${without}`);
openPage(
  WEBGL_RUNTIME,
  FEATURES.filter(({ name }) => name !== without),
);
