// Bundles the two entries into the Python package: `node build.js [--watch]`.
import * as esbuild from "esbuild";

const options = {
  entryPoints: ["src/widget.ts", "src/runtime.ts"],
  outdir: "../src/nbglcnn/static",
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  loader: { ".glsl": "text", ".css": "text" },
  logLevel: "info",
};

if (process.argv.includes("--watch")) {
  await (await esbuild.context(options)).watch();
} else {
  await esbuild.build(options);
}
