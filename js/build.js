// Bundles the front-end into the Python package: `node build.js [--watch]`.
//
// Rooms are views whose code comes behind the first picture, each in a file of its own. Pages import a file from a
// blob, where none can import another: so a room is a function of the core's modules, which it takes by name.
import { existsSync, readdirSync, readFileSync, watch, writeFileSync } from "node:fs";
import { relative, resolve } from "node:path";
import * as esbuild from "esbuild";

const outdir = "../src/nbglcnn/static";
const CORE = "src/widget.ts";
const MODULES = "core:modules";
const ROOMS = "core:rooms";
/** Small files without a state, of which each room has a copy of its own, so that the core stays small. */
const COPIED = [
  "src/edits.ts",
  "src/parts.ts",
  "src/explain/around.ts",
  "src/explain/repeated.ts",
  "src/explain/tensor.ts",
  "src/sources/noise.ts",
  "src/sources/place.ts",
  "src/sources/shuffle.ts",
  "src/state/steps.ts",
  "src/views/coloring.tsx",
  "src/views/flags.ts",
  "src/views/grid.tsx",
  "src/views/keep/files.ts",
  "src/views/pages.tsx",
  "src/views/soft.tsx",
  "src/views/spread.ts",
];
const isRoom = (name) => existsSync(`src/views/${name}/room.ts`);
const rooms = existsSync("src/views") ? readdirSync("src/views").filter(isRoom).sort() : [];

const options = {
  outdir,
  bundle: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  charset: "utf8",
  legalComments: "none", // LICENSES.txt has them in full
  metafile: true,
  preserveSymlinks: true, // so that packages behind links go with their licences too
  logLevel: "warning",
};

/** A line of GLSL without the spaces that say nothing. Those of macros may, and a - -b is no a--b. */
function tight(line) {
  if (line.startsWith("#")) return line;
  const bare = line.replace(/\s*([*/%=<>!&|^?:;,(){}[\]])\s*/g, "$1");
  return bare.replace(/(?<=[\w)\]]) ([+-]=?) ?(?=[\w(])/g, "$1");
}

const texts = {
  name: "texts",
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const css = readFileSync(path, "utf8");
      const { code } = await esbuild.transform(css, { loader: "css", minify: true });
      return { contents: code, loader: "text" };
    });
    build.onLoad({ filter: /\.glsl$/ }, ({ path }) => {
      const lines = readFileSync(path, "utf8").split("\n");
      const bare = lines.map((line) => tight(line.replace(/\/\/.*/, "").trim()));
      return { contents: `${bare.filter((line) => line !== "").join("\n")}\n`, loader: "text" };
    });
  },
};

/** Gives the core what rooms take of it: its modules by name. */
const offering = (names) => ({
  name: "offering",
  setup(build) {
    build.onResolve({ filter: new RegExp(`^${MODULES}$`) }, ({ path }) => ({
      path,
      namespace: "core",
    }));
    build.onLoad({ filter: /.*/, namespace: "core" }, () => ({
      resolveDir: resolve("."),
      contents: [
        ...names.map(
          (name, k) => `import * as m${k} from "${/^src\//.test(name) ? `./${name}` : name}";`,
        ),
        `export const modules = {${names.map((name, k) => `"${name}": m${k}`).join(", ")}};`,
      ].join("\n"),
    }));
  },
});

/** What only a page that trains or teaches needs: these have one script, as a third one would be much in the package. */
const LEARNING = ["train", "training", "teach"];

/** All rooms but some, for a page that has them from the first. */
const withRooms = (without) => ({
  name: "with rooms",
  setup(build) {
    const own = rooms.filter((name) => !without.includes(name));
    build.onResolve({ filter: new RegExp(`^${ROOMS}$`) }, ({ path }) => ({
      path,
      namespace: "rooms",
    }));
    build.onLoad({ filter: /.*/, namespace: "rooms" }, () => ({
      resolveDir: resolve("."),
      contents: [
        ...own.map((name, k) => `import * as m${k} from "./src/views/${name}/room.ts";`),
        `export const rooms = [${own.map((name, k) => `{ name: "${name}", room: m${k} }`).join(", ")}];`,
      ].join("\n"),
    }));
  },
});

/** Leaves in a room's code an import of each of these files. */
const taking = (files) => ({
  name: "taking",
  setup(build) {
    build.onResolve({ filter: /.*/ }, async ({ path, pluginData, kind, ...where }) => {
      if (pluginData === "resolved" || kind === "entry-point") return undefined;
      const found = await build.resolve(path, { ...where, kind, pluginData: "resolved" });
      if (found.errors.length > 0) return { errors: found.errors };
      const file = relative(resolve("."), found.path).replaceAll("\\", "/");
      // A package goes by its name, a file of ours by its place.
      return files.has(file)
        ? { path: path.startsWith(".") ? file : path, external: true }
        : undefined;
    });
  },
});

/** A room's module as a function of the core's: its imports are what it takes, its exports what it returns. */
function asFunction(code) {
  const taken = new Map(); // by file: names there, and what each is called here, by every file of the room
  const take = (_, names, file) => {
    const locals = taken.get(file) ?? new Map();
    taken.set(file, locals);
    for (const one of names.split(",")) {
      const [name, local = name] = one.split(" as ");
      locals.set(name, [...(locals.get(name) ?? []), local]);
    }
    return "";
  };
  const inside = code
    .replace(/import\{([^{}]*)\}from"([^"]+)";/g, take)
    .replace(/import ([\w$]+) from"([^"]+)";/g, (_, local, file) =>
      take(_, `default as ${local}`, file),
    );
  const [exports, names] = /export\{([^{}]*)\};\n$/.exec(inside);
  const body = inside.slice(0, -exports.length);
  if (/\bimport[*{]/.test(body)) throw new Error("a room imports a module as a whole");
  new Function(body); // throws where something else was left of a module
  const imports = [...taken].map(([file, locals]) => {
    const first = [...locals].map(([name, [local]]) => `${name}:${local}`);
    const same = [...locals].flatMap(([, [one, ...more]]) =>
      more.map((local) => `${local}=${one}`),
    );
    return `const ${[`{${first.join()}}=take("${file}")`, ...same].join()};`;
  });
  const given = names.replace(/([\w$]+) as ([\w$]+)/g, "$2:$1");
  return `export default (take) => {${imports.join("")}${body}return{${given}}};\n`;
}

/** The core and its rooms; `shared` are files that several rooms need, which are then the core's. */
async function buildCore(shared = []) {
  const core = (names, write) =>
    esbuild.build({
      ...options,
      entryPoints: [CORE],
      plugins: [texts, offering(names)],
      write,
    });
  if (rooms.length === 0) return [await core([], true)];
  const own = new Set(Object.keys((await core(shared, false)).metafile.inputs));
  for (const file of COPIED) own.delete(file);
  const built = await esbuild.build({
    ...options,
    entryPoints: rooms.map((name) => ({ in: `src/views/${name}/room.ts`, out: name })),
    plugins: [texts, taking(own)],
  });
  for (const file of Object.keys(built.metafile.outputs)) {
    writeFileSync(file, asFunction(readFileSync(file, "utf8")));
  }
  const outputs = Object.values(built.metafile.outputs);
  const inside = outputs.flatMap(({ inputs }) => Object.keys(inputs));
  const several = inside.filter((file, k) => inside.indexOf(file) !== k && !COPIED.includes(file));
  if (several.length > 0) return buildCore([...new Set([...shared, ...several])]);
  const imported = outputs.flatMap(({ imports }) => imports.map(({ path }) => path));
  return [await core([...new Set(imported)].sort(), true), built];
}

async function buildAll() {
  const entry = (file) => ({ ...options, entryPoints: [file], plugins: [texts] });
  // A page keeps the loader's text for each Viewer, in two bytes a letter where one is beyond Latin-1.
  const loader = await esbuild.build({ ...entry("src/loader.ts"), charset: "ascii" });
  const runtime = await esbuild.build(entry("src/runtime.ts"));
  // One script in a document, which no module is: that would be loaded from somewhere.
  const page = (out, without) =>
    esbuild.build({
      ...entry("src/page.ts"),
      entryPoints: [{ in: "src/page.ts", out }],
      format: "iife",
      plugins: [texts, withRooms(without)],
    });
  const pages = [await page("page", LEARNING), await page("page_training", [])];
  const built = [loader, runtime, ...pages, ...(await buildCore())];
  const files = built.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  writeFileSync(`${outdir}/LICENSES.txt`, licenses(files));
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
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(
      () =>
        buildAll().then(
          () => console.log("built"),
          () => undefined,
        ),
      100,
    );
  };
  for (const folder of ["src", "../src/nbglcnn"]) {
    watch(folder, { recursive: true }, (_, file) => {
      if (!file?.startsWith("static")) again();
    });
  }
  again();
} else {
  await buildAll().catch((error) => {
    if (!error.errors) console.error(error); // esbuild has said its own
    process.exit(1);
  });
}
