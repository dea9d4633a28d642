// Bundles the three entries into the Python package: `node build.js [--watch]`.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import * as esbuild from "esbuild";

const outdir = "../src/nbglcnn/static";

const options = {
  entryPoints: ["src/loader.ts", "src/widget.ts", "src/runtime.ts"],
  outdir,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none", // LICENSES.txt has them in full
  metafile: true,
  preserveSymlinks: true, // so that packages behind links go with their licences too
  plugins: [{ name: "smaller", setup: smaller }],
  logLevel: "warning",
};

if (process.argv.includes("--watch")) {
  await (await esbuild.context({ ...options, logLevel: "info" })).watch();
} else {
  const { metafile } = await esbuild.build(options).catch(() => process.exit(1)); // it has said why
  writeFileSync(`${outdir}/LICENSES.txt`, licenses(Object.keys(metafile.inputs)));
}

/** What esbuild cannot leave out by itself: comments of texts, and colour maps nobody uses. */
function smaller(build) {
  build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
    const css = readFileSync(path, "utf8");
    const { code } = await esbuild.transform(css, { loader: "css", minify: true });
    return { contents: code, loader: "text" };
  });
  build.onLoad({ filter: /\.glsl$/ }, ({ path }) => {
    const bare = readFileSync(path, "utf8").replace(/\/\/.*$/gm, "");
    return { contents: bare.replace(/^\s+/gm, "").replace(/[ \t]+$/gm, ""), loader: "text" };
  });
  // Its one file makes all of its maps as it is loaded, from two packages that ours do not need.
  build.onLoad({ filter: /d3-scale-chromatic\.mjs$/ }, ({ path }) => {
    const made = /^(var [\w$]+ = )((?:new|\w+[\w$]*\().*?;)$/gms;
    const pure = (_, name, value) => `${name}/* @__PURE__ */ (() => ${value.slice(0, -1)})();`;
    return { contents: readFileSync(path, "utf8").replace(made, pure), loader: "js" };
  });
}

/** The licences of all packages that files of the bundles come from; MIT and ISC ask for them. */
function licenses(files) {
  const found = files.map((file) => file.match(/^node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0]);
  const folders = [...new Set(found.filter((folder) => folder !== undefined))].sort();
  return folders
    .map((folder) => {
      const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
      const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
      if (file === undefined) throw new Error(`${name} comes without a licence file`);
      return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
    })
    .join(`\n${"-".repeat(80)}\n\n`);
}
