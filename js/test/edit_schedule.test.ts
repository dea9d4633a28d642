// What edits need on a device: which textures, tables and programs they share, and how previews and stages are keyed.
import assert from "node:assert/strict";
import test from "node:test";
import { intermediateKey } from "../src/plan/derived_values.ts";
import type { EditRequest, ResourcePool } from "../src/plan/edit_schedule.ts";
import { type Edit, TRANSFORMS } from "../src/plan/edits.ts";
import type { Texture, Value } from "../src/plan/schema.ts";
import { PLAIN_EDIT } from "./plain_edit.ts";
import { planHeader } from "./plan_files.ts";
import "./text_imports.ts";

const { scheduleEdits: lay, haveSamePasses: sameShape } = await import(
  "../src/plan/edit_schedule.ts"
);
const { checkEdits, checkPreview } = await import("../src/plan/check_edits.ts");
const {
  arrayTextureSize: arraySize,
  bendProgram,
  bendCost: costOf,
  bendUniforms: numbersOfEdit,
  packTexels: padded,
  channelTable: tableOf,
  channelTableSize: tableSize,
} = await import("../src/plan/edit_program.ts");

const PLAN = planHeader((plan) => {
  const [value] = plan.values;
  const nchw = [2, 5, 2, 3];
  const layout = { ...value.layout, nchw };
  const layout_words = [...nchw, ...value.layout_words.slice(4)];
  const shown = { shape: nchw, nchw, layout, layout_words };
  plan.values.push({ ...value, ...shown, key: "y", edit_pass: 0, texture: 2 });
  plan.values.push({ ...value, key: "fixed", edit_pass: -2 });
});
const [X, Y] = PLAN.values as [Value, Value];

const makeEdit = (name: string, more: Partial<Edit> = {}): Edit => ({
  ...PLAIN_EDIT,
  layer: "y",
  name,
  transform: "multiply",
  parameters: [2],
  ...more,
});
const createRequest = (changes: Partial<EditRequest>): EditRequest => ({
  edits: [],
  getArray: () => new Float32Array(60),
  uneditedKeys: [],
  intermediateKeys: [],
  preview: null,
  ...changes,
});

/** Gives each name, and each program's text, a number of its own. */
function createPool(maxTextureSide = 4096) {
  const names = new Map<string, number>();
  const sizes = new Map<string, Texture>();
  const number = (name: string): number => {
    names.set(name, names.get(name) ?? 100 + names.size);
    return names.get(name) ?? -1;
  };
  const one: ResourcePool = {
    requestProgram: ({ source }) => number(`program ${source}`),
    requestTexture: (name, size) => {
      sizes.set(name, size);
      return number(name);
    },
    hasTexture: (name) => names.has(name),
    requestChannelTable: (of) => number(`table ${of}`),
    requestInjectedArray: (hash, name = `array ${hash}`) => number(name),
    maxTextureSide,
  };
  const kept = () => [...names.keys()].filter((name) => !name.startsWith("program"));
  const programs = () => names.size - kept().length;
  return { one, kept, programs, sizes };
}

test("edits of one value alternate between two textures and end in one that stays", () => {
  const { one, kept, programs } = createPool();
  const edits = ["a", "b", "c", "d"].map((name) => makeEdit(name));
  const laid = lay(PLAN, createRequest({ edits }), one);
  assert.deepEqual(
    kept().filter((name) => name.startsWith("bent")),
    ["bent 1 1", "bent 1 2", "bent 1 0"],
  );
  assert.equal(programs(), 1, "all multiply");
  assert.equal(laid.passesAfter.get(0)?.length, 4);
  assert.equal(laid.uniforms.length, 4);
  assert.equal(laid.values.get("y")?.texture, laid.editedTextures.get(1));
});

test("a table of channels is each edit's own, and an array is shared by its contents", () => {
  const { one, kept } = createPool();
  const edits = [
    makeEdit("a", { transform: "inject", parameters: [], array_hash: "hash" }),
    makeEdit("b", { channels: [1] }),
    makeEdit("c", { layer: "x", transform: "inject", parameters: [], array_hash: "hash" }),
  ];
  lay(PLAN, createRequest({ edits }), one);
  assert.deepEqual(
    kept().filter((name) => /^(table|array)/.test(name)),
    ["table of c 4", "array hash", "table of a 5", "table of b 5"],
  );
});

test("programs differ by the transform, a text of one's own, and the layers of the texture", () => {
  const text = (layers: number, transform: string | undefined, source = "") =>
    bendProgram(layers, false, transform, makeEdit("e", { source, parameter_names: ["p"] })).source;
  const all = [
    text(1, "multiply"),
    text(2, "multiply"),
    text(1, "add"),
    text(1, undefined),
    text(1, "glsl", "y = x * p;"),
    text(1, "glsl", "y = x + p;"),
    bendProgram(1, true, "multiply").source,
  ];
  assert.equal(new Set(all).size, all.length);
  assert.equal(text(1, "multiply"), all[0]);
});

test("a preview is of its own channel, example and number of asking", () => {
  const preview = (channel: number, image: number, id = 0) =>
    lay(
      PLAN,
      createRequest({ preview: { layer: "y", channel, image, edits: [makeEdit("a")], id } }),
      createPool().one,
    );
  const [of] = preview(3, 1).uniforms;
  assert.deepEqual(of?.singleMap, [3, 1]);
  assert.notDeepEqual(preview(3, 1).previewKeys, preview(3, 1, 1).previewKeys);
  const [key = ""] = preview(3, 1).previewKeys;
  const value = preview(3, 1).values.get(key);
  assert.deepEqual(value?.nchw, [1, 1, 2, 3]);
  assert.equal(preview(3, 1).baseValues.get(value as Value), undefined, "another laying's");
});

test("previews need textures that the device can have", () => {
  const preview = { layer: "y", channel: 0, image: 0, edits: [makeEdit("a")], id: 0 };
  const laid = (longest: number) =>
    lay(PLAN, createRequest({ preview }), createPool(longest).one).previewKeys.length;
  assert.deepEqual([laid(3), laid(2)], [1, 0]);
});

test("a preview of channels and images that are not there is refused", () => {
  const asked = (channel: number, image: number, edits = [makeEdit("a")]) =>
    checkPreview(PLAN, { layer: "y", channel, image, edits });
  asked(0, 0);
  asked(4, 1);
  for (const [channel, image] of [[5, 0], [-1, 0], [0, 2], [0, -1]] as const)
    assert.throws(() => asked(channel, image), /no preview of channel/); // biome-ignore format: pairs
  assert.throws(() => asked(0, 0, [makeEdit("a", { layer: "x" })]), /no preview/);
  const inject = makeEdit("a", { transform: "inject", parameters: [], array_hash: "h" });
  assert.throws(() => asked(0, 0, [inject]), /no preview/);
});

test("the stages of a value are before all edits and behind each, on or off", () => {
  const { one, kept } = createPool();
  const edits = [makeEdit("a"), makeEdit("off", { enabled: false }), makeEdit("c")];
  const { values } = lay(PLAN, createRequest({ edits, intermediateKeys: ["y"] }), one);
  const textures = [0, 1, 2, 3].map((k) => values.get(intermediateKey("y", k))?.texture);
  const [before, first, off, last] = textures;
  assert.equal(before, Y.texture);
  assert.equal(first, off, "what is off changes nothing");
  assert.equal(new Set([before, first, last]).size, 3);
  assert.equal(values.get(intermediateKey("y", 4)), undefined);
  assert.deepEqual(
    kept().filter((name) => name.startsWith("stage")),
    ["stage 1 0"],
  );
});

test("what is compared without any edit needs nothing, until something was edited", () => {
  const { one, kept } = createPool();
  const uneditedKeys = ["x", "y"];
  assert.equal(lay(PLAN, createRequest({ uneditedKeys }), one).uneditedCopies.size, 0);
  assert.deepEqual(kept(), []);
  const bent = lay(PLAN, createRequest({ uneditedKeys, edits: [makeEdit("a")] }), one);
  assert.deepEqual([...bent.uneditedCopies.keys()], [0, 1]);
  const after = lay(PLAN, createRequest({ uneditedKeys }), one);
  assert.deepEqual(
    [after.uneditedCopies.size, after.finalPasses.length],
    [0, 2],
    "the difference stays, which is 0",
  );
});

test("other numbers keep the shape of passes, another edit or compared value does not", () => {
  const { one } = createPool();
  const laid = (more: Partial<EditRequest>) => lay(PLAN, createRequest(more), one);
  const first = laid({ edits: [makeEdit("a")] });
  assert.ok(sameShape(first, laid({ edits: [makeEdit("a", { parameters: [3], mix: 0.5 })] })));
  assert.ok(
    !sameShape(first, laid({ edits: [makeEdit("b")] })),
    "its table of channels is another",
  );
  assert.ok(!sameShape(first, laid({ edits: [makeEdit("a", { layer: "x" })] })));
  assert.ok(!sameShape(first, laid({ edits: [makeEdit("a", { transform: "add" })] })));
  assert.ok(!sameShape(first, laid({ edits: [makeEdit("a"), makeEdit("b")] })));
  assert.ok(!sameShape(first, laid({ edits: [makeEdit("a")], uneditedKeys: ["y"] })));
  assert.ok(!sameShape(first, laid({ edits: [makeEdit("a")], intermediateKeys: ["y"] })));
});

test("edits are checked at their bounds: channels, parameters, arrays, names", () => {
  const check = (...edits: Edit[]) => checkEdits(PLAN, edits, () => new Float32Array(2 * 5 * 6));
  const names = Array.from({ length: 9 }, (_, k) => `p${k}`);
  const text = (count: number) =>
    makeEdit("a", {
      transform: "glsl",
      source: "y = x;",
      parameter_names: names.slice(0, count),
      parameters: names.slice(0, count).map(() => 0),
    });
  check(makeEdit("a", { channels: [0, 4] }), makeEdit("b", { channels: [] }));
  check(text(8), makeEdit("b", { transform: "inject", parameters: [], array_hash: "h" }));
  for (const wrong of [
    makeEdit("a", { channels: [5] }),
    makeEdit("a", { channels: [-1] }),
    makeEdit("a", { channels: [0.5] }),
    makeEdit("a", { parameters: [] }),
    makeEdit("a", { parameters: [Number.NaN] }),
    makeEdit("a", { mix: Number.POSITIVE_INFINITY }),
    makeEdit("a", { transform: "none" }),
    makeEdit("a", { layer: "fixed" }),
    makeEdit("a", { layer: "z" }),
    makeEdit("a", { source: "y = x;" }),
    makeEdit("a", { transform: "inject", parameters: [], array_hash: "h", channels: [0] }),
    text(9),
  ])
    assert.throws(() => check(wrong), { name: "PlanError" });
  assert.throws(() => check(makeEdit("a"), makeEdit("a")), /two edits have one name/);
  const saturation = makeEdit("a", { transform: "saturation", parameters: [1] });
  assert.throws(() => check(saturation), /3 or 4 channels, not 5/);
  check({ ...saturation, layer: "x" });
});

test("tables and arrays lie in rows of 2048 texels, four numbers each", () => {
  const nchw = (channels: number) => ({ nchw: [1, channels, 1, 1] as const });
  assert.deepEqual(tableSize(nchw(1)), { width: 1, height: 1, layers: 1 });
  assert.deepEqual(tableSize(nchw(8192)), { width: 2048, height: 1, layers: 1 });
  assert.deepEqual(tableSize(nchw(8193)), { width: 2048, height: 2, layers: 1 });
  assert.deepEqual(arraySize(0), { width: 1, height: 1, layers: 1 });
  assert.deepEqual(arraySize(4 * 2048), { width: 2048, height: 1, layers: 1 });
  assert.deepEqual(arraySize(4 * 2048 + 1), { width: 2048, height: 2, layers: 1 });
  assert.deepEqual([...tableOf(nchw(5), [4, 1])], [0, 2, 0, 0, 1, 0, 0, 0]);
  assert.deepEqual([...tableOf(nchw(5), null)], [1, 2, 3, 4, 5, 0, 0, 0]);
  assert.deepEqual([...tableOf(nchw(2), [])], [0, 0, 0, 0]);
  const whole = new Float32Array(8).fill(1);
  assert.equal(padded(whole), whole);
  assert.deepEqual([...padded(new Float32Array(5).fill(1))], [1, 1, 1, 1, 1, 0, 0, 0]);
});

test("a pass costs by its texels, the reads of its transform, and more where it has all transforms", () => {
  const cost = (
    transform: string,
    parameters: number[],
    value = X,
    singleMap?: readonly [number, number],
  ) =>
    costOf({
      ...numbersOfEdit(value, makeEdit("a", { transform, parameters }), 0),
      ...(singleMap && { singleMap }),
    });
  const one = cost("multiply", [2]);
  assert.equal(one, 6 * 18);
  assert.equal(cost("multiply", [2], Y), 4 * one, "two images of two groups");
  const reshaped = { ...Y, layout_words: X.layout_words, layout: X.layout };
  assert.equal(cost("multiply", [2], reshaped), 10 * one, "a channel a texel");
  assert.equal(cost("multiply", [2], X, [0, 0]), 7 * one);
  assert.equal(cost("edges", []), 6 * (15 + 9 * 3));
  assert.equal(cost("blur", [1]), 6 * (15 + 9 * 3));
  assert.equal(cost("sharpen", [5, 1]), cost("blur", [1]));
  assert.equal(cost("erode", [2]), 6 * (15 + 25 * 3));
  assert.equal(
    TRANSFORMS.every(({ name }) => cost(name, [1, 1]) > 0),
    true,
  );
});
