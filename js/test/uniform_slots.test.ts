// Where named slots of the page's shaders lie, and that each shader reads all of its own.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./text_imports.ts";

const { writeUniforms: writeNumbers } = await import("../src/plan/uniforms.ts");
const { RESAMPLE_PROGRAMS: PROGRAMS } = await import("../src/webgl/picture_upload.ts");
const kernels = await import("../src/webgl/kernels.ts");
const { TOPK_PROGRAMS: LARGEST, ARGMAX_PROGRAMS: LIKELIEST } = await import(
  "../src/webgl/score_reductions.ts"
);
const { uniformSlots: slots } = await import("../src/plan/uniform_slots.ts");

test("slots are packed in their order, and none crosses a vec4", () => {
  const { macros } = slots({ a: "int", b: "ivec2", c: "ivec2", d: "float", e: "vec4", f: "vec3" });
  assert.deepEqual(macros.split("\n"), [
    "#define u_a u.i[0].x",
    "#define u_b u.i[0].yz",
    "#define u_c u.i[1].xy",
    "#define u_d u.f[0].x",
    "#define u_e u.f[1]",
    "#define u_f u.f[2].xyz",
  ]);
});

test("each element of an array has a vec4", () => {
  const { macros, fill } = slots({ a: "int", rows: "ivec2[3]", b: "int" });
  assert.deepEqual(macros.split("\n"), [
    "#define u_a u.i[0].x",
    "#define u_rows(k) u.i[1 + (k)].xy",
    "#define u_b u.i[4].x",
  ]);
  const rows = [[1, 2] as const, [3, 4] as const];
  const block = new ArrayBuffer(512);
  writeNumbers(block, 0, { slotWords: fill({ a: 7, rows, b: 8 }) });
  const words = new Int32Array(block);
  assert.deepEqual(
    [...words.subarray(80, 98)],
    [7, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 8, 0],
  );
});

test("whole numbers and floats are written behind the layouts, at any block", () => {
  const { fill } = slots({ share: "float", first: "int", ends: "vec2" });
  const block = new ArrayBuffer(1024);
  writeNumbers(block, 512, { slotWords: fill({ share: 0.5, first: -3, ends: [1.5, -2] }) });
  assert.equal(new Int32Array(block, 512)[80], -3);
  assert.deepEqual([...new Float32Array(block, 512).subarray(112, 116)], [0.5, 1.5, -2, 0]);
  assert.ok(new Uint8Array(block, 0, 512).every((byte) => byte === 0));
});

test("a slot without room is named", () => {
  assert.throws(() => slots({ a: "vec4[4]", ends: "vec2" }), /u_ends has no room: u.f is full/);
  const banks = { integers: { name: "n", firstWord: 0, vectorCount: 1 } };
  assert.throws(() => slots({ a: "ivec4", b: "int" }, banks), /u_b has no room: n is full/);
  assert.throws(() => slots({ share: "float" }, banks), /u_share is a float/);
});

test("every shader of the page reads each slot that it declares", () => {
  const own = [
    kernels.MIN_MAX_KERNEL,
    kernels.COMBINE_KERNEL,
    ...LARGEST,
    ...LIKELIEST,
    ...PROGRAMS,
  ];
  const reducing = [
    ...kernels.REDUCTION_PROGRAMS,
    ...kernels.HISTOGRAM_PROGRAMS,
    ...kernels.RESHAPED_HISTOGRAM_PROGRAMS,
  ];
  // A picture's programs have one table, with a few slots more for some: each is read by one of them at least.
  const drawn = Object.values(kernels.DISPLAY_PROGRAMS).map(
    ({ source, vertexSource }) => source + vertexSource,
  );
  const programs = [...own, ...reducing, { name: "display", source: drawn.join("\n") }];
  assert.ok(programs.length > 15);
  for (const { name, source } of programs) {
    const declared = new Set(Array.from(source.matchAll(/^#define (u_\w+)/gm), ([, slot]) => slot));
    const text = source.replace(/^#define u_.*$/gm, "").replace(/\/\/.*$/gm, "");
    const unread = [...declared].filter((slot) => !new RegExp(`\\b${slot}\\b`).test(text));
    assert.ok(declared.size > 0);
    assert.deepEqual(unread, [], name);
  }
});
