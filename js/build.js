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
  // The GLSL prelude lies beside the Python that also uses it, outside js/.
  nodePaths: ["node_modules"],
  logLevel: "info",
};

if (process.argv.includes("--watch")) {
  await (await esbuild.context(options)).watch();
} else {
  await esbuild.build(options);
}
