// Bundles the front-end into the Python package: `node build.js [--watch]`.
import { readdirSync, readFileSync, rmSync, watch, writeFileSync } from "node:fs";
import { basename } from "node:path";
import * as esbuild from "esbuild";

const outdir = "../src/nbglcnn/static";
const options = {
  outdir,
  bundle: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".css": "text", ".glsl": "text" },
  minify: true,
  charset: "utf8",
  legalComments: "none", // LICENSES.txt has them in full
  metafile: true,
  preserveSymlinks: true, // so that packages behind links go with their licences too
  logLevel: "warning",
};

async function buildAll() {
  const bundle = (name, more) =>
    esbuild.build({ ...options, entryPoints: [`src/${name}.ts`], ...more });
  const built = await Promise.all([
    bundle("widget"),
    bundle("runtime"),
    // A page keeps the loader's text for each Viewer, in two bytes a letter where one is beyond Latin-1.
    bundle("loader", { charset: "ascii" }),
    // A script in the document: a module would be loaded from an address.
    bundle("page", { format: "iife" }),
  ]);
  const files = built.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  writeFileSync(`${outdir}/LICENSES.txt`, licenses(files));
  const written = built.flatMap(({ metafile }) => Object.keys(metafile.outputs));
  const kept = new Set(["LICENSES.txt", ...written.map((file) => basename(file))]);
  // Bundles of another version, in a checkout.
  for (const file of readdirSync(outdir)) if (!kept.has(file)) rmSync(`${outdir}/${file}`);
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

if (process.argv.includes("--watch")) {
  let timer;
  const rebuild = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      buildAll().then(
        () => console.log("built"),
        () => undefined,
      );
    }, 100);
  };
  for (const folder of ["src", "../src/nbglcnn"]) {
    watch(folder, { recursive: true }, (_, file) => {
      if (!file?.startsWith("static")) rebuild();
    });
  }
  rebuild();
} else {
  await buildAll().catch((error) => {
    if (!error.errors) console.error(error); // esbuild has said its own
    process.exit(1);
  });
}
