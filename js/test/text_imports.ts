// Lets node import shaders and style sheets as texts, as the bundler does: what is imported behind this can be tested.
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

registerHooks({
  load(url, context, next) {
    if (!/\.(glsl|css)$/.test(url)) return next(url, context);
    const source = `export default ${JSON.stringify(readFileSync(new URL(url), "utf8"))};`;
    return { format: "module", source, shortCircuit: true };
  },
});
