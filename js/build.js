// Bundles the three entries into the Python package: `node build.js [--watch]`.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import * as esbuild from "esbuild";
import { minify } from "terser";

const outdir = "../src/nbglcnn/static";

const options = {
  entryPoints: ["src/loader.ts", "src/runtime.ts"],
  outdir,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "ascii", // browsers hold other texts at two bytes a character, once for each Viewer
  legalComments: "none", // LICENSES.txt has them in full
  metafile: true,
  preserveSymlinks: true, // so that packages behind links go with their licences too
  plugins: [{ name: "smaller", setup: smaller }],
  logLevel: "warning",
};

// Preact's `h` makes the elements (src/jsx.ts): its calls are shorter than the automatic transform's, by 5 kB.
const widget = {
  ...options,
  entryPoints: ["src/widget.ts"],
  inject: ["src/jsx.ts", "src/short.ts"],
  define: {
    undefined: "UNDEFINED", // no name that anything else has: a define knows no scopes
    "Number.NaN": "NaN",
    "Number.POSITIVE_INFINITY": "Infinity",
  },
  tsconfig: "tsconfig.bundle.json",
};

if (process.argv.includes("--watch")) {
  for (const one of [options, widget]) {
    await (await esbuild.context({ ...one, logLevel: "info" })).watch();
  }
} else {
  const built = Promise.all([options, widget].map((one) => esbuild.build(one)));
  const both = await built.catch(() => process.exit(1)); // it has said why
  const outputs = both.flatMap(({ metafile }) => Object.keys(metafile.outputs));
  await Promise.all(outputs.map(shorten));
  const files = both.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  writeFileSync(`${outdir}/LICENSES.txt`, licenses(files));
}

/** What esbuild's minifier leaves, which looks at one expression at a time: 1 % of the bytes, 4 % once compressed. */
async function shorten(file) {
  // No function expression here is a constructor, which is what "unsafe" warns of.
  const compress = { ecma: 2020, passes: 3, inline: 1, unsafe_arrows: true };
  const format = { ascii_only: true };
  const { code } = await minify(readFileSync(file, "utf8"), { module: true, compress, format });
  writeFileSync(file, code);
}

/** What esbuild cannot leave out by itself: comments of texts, and colour maps nobody uses. */
function smaller(build) {
  build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
    const css = readFileSync(path, "utf8");
    const { code } = await esbuild.transform(css, { loader: "css", minify: true });
    return { contents: code, loader: "text" };
  });
  build.onLoad({ filter: /\.glsl$/ }, ({ path }) => {
    const lines = readFileSync(path, "utf8").split("\n");
    // A macro's first space says where its name ends.
    const tight = (line) =>
      line.startsWith("#")
        ? line
        : line
            .replace(/\s*([=*/,;(){}<>?:&|![\]])\s*/g, "$1")
            .replace(/(\w|[)\]]) ([+-]) (?![+-])/g, "$1$2"); // a - -b keeps its spaces
    const bare = lines.map((line) => tight(line.replace(/\/\/.*/, "").trim()));
    return { contents: `${bare.filter((line) => line !== "").join("\n")}\n`, loader: "text" };
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
