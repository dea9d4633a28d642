// Lets node import shaders and style sheets as texts, and views, as the bundler does: what is imported behind this can be tested.
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { transformSync } from "esbuild";

registerHooks({
  load(url, context, next) {
    if (!/\.(glsl|css|tsx)$/.test(url)) return next(url, context);
    const text = readFileSync(new URL(url), "utf8");
    const source = url.endsWith("x")
      ? transformSync(text, { loader: "tsx", jsx: "automatic", jsxImportSource: "preact" }).code
      : `export default ${JSON.stringify(text)};`;
    return { format: "module", source, shortCircuit: true };
  },
});
