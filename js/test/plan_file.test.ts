// Plan files, whole and damaged: nothing that a number in one says is believed.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as zlib from "node:zlib";
import { formatPassCount } from "../src/number_format.ts";
import { checkPlan } from "../src/plan/check_plan.ts";
import { crc32 } from "../src/plan/crc32.ts";
import { parsePlan } from "../src/plan/plan_file.ts";
import { ALIGNMENT_BYTES, VERSION } from "../src/plan/schema.ts";
import { makePlanFile, planHeader, withChecksum } from "./plan_files.ts";

test("a Plan file gives its header, uniforms and weights", () => {
  const body = new Uint8Array(512 + 32);
  new Float32Array(body.buffer, 512, 8).set([1, 2, 3, 4, 5, 6, 7, 8]);
  body[0] = 9;
  for (const bytes of [
    makePlanFile(planHeader(), body),
    misalign(makePlanFile(planHeader(), body)),
  ]) {
    const { plan, uniforms, getWeight } = parsePlan(bytes);
    assert.deepEqual(plan, planHeader());
    assert.equal(uniforms.length, 512);
    assert.equal(uniforms[0], 9);
    assert.deepEqual([...getWeight(plan.weights[0]?.hash ?? "")], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert.throws(() => getWeight("no"), /no weight no/);
  }
});

/** The same bytes at an odd address. */
function misalign(bytes: Uint8Array): Uint8Array {
  const longer = new Uint8Array(bytes.length + 1);
  longer.set(bytes, 1);
  return longer.subarray(1);
}

test("what is no Plan file is refused in words", () => {
  const whole = makePlanFile(planHeader());
  const wrong = whole.slice();
  wrong[0] = 0;
  const endless = whole.slice();
  new DataView(endless.buffer).setUint32(8, 2 ** 32 - 1, true);
  const torn = whole.slice();
  torn[20] = 0xff;
  const cases: [Uint8Array, RegExp][] = [
    [new Uint8Array(), /not a Plan file/],
    [wrong, /not a Plan file of this version/],
    [whole.subarray(0, 12), /damaged Plan file: a header of -1 bytes/],
    [withChecksum(endless), /a header of 4294967295 bytes in a file/],
    [withChecksum(torn), /its header is not JSON/],
    [
      withChecksum(whole.subarray(0, whole.length - 512)),
      /its uniforms are incomplete|missing or has a wrong size/,
    ],
    [
      makePlanFile(planHeader(), new Uint8Array(512 + 16)),
      /weight .* is missing or has a wrong size/,
    ],
    [
      makePlanFile({ ...planHeader(), version: VERSION + 1 }),
      /Plan of format \d+; this page reads \d/,
    ],
    [makePlanFile(null), /Plan of format undefined/],
    [makePlanFile({ version: VERSION }), /header is not a PlanHeader: it has no language/],
  ];
  for (const [bytes, message] of cases) {
    assert.throws(() => parsePlan(bytes), { name: "PlanError", message });
  }
});

test("a file cut anywhere is refused: in its header, in its uniforms, in a weight", () => {
  const bare = planHeader((plan) => Object.assign(plan, { weights: [], blobs: {} }));
  const uniforms = "damaged Plan file: its uniforms are incomplete";
  const weight = `damaged Plan file: weight ${planHeader().weights[0]?.hash} is missing or has a wrong size`;
  for (const [plan, kept, reasons] of [
    [planHeader(), 512 + 32, [uniforms, weight]],
    [bare, 512, [uniforms]],
  ] as const) {
    const whole = makePlanFile(plan);
    const end = whole.length - (512 + ALIGNMENT_BYTES) + kept;
    const found = new Set<string>();
    for (let length = 0; length < end; length++) {
      assert.throws(
        () => parsePlan(withChecksum(whole.subarray(0, length))),
        (error: Error) => found.add(error.message) && error.name === "PlanError",
        `cut to ${length} of ${whole.length}`,
      );
    }
    assert.ok(reasons.every((reason) => found.has(reason)));
    assert.deepEqual(parsePlan(withChecksum(whole.subarray(0, end))).plan, plan);
  }
});

// Each changes one thing of a valid header.
const DAMAGE: [RegExp, Parameters<typeof planHeader>[0]][] = [
  [/header.textures\[0\].width is not an integer/, (p) => (p.textures[0].width = "3")],
  [/header.passes is not a list/, (p) => (p.passes = {})],
  [/header.values\[0\].kind is not one of/, (p) => (p.values[0].kind = "thing")],
  [/header.values\[0\].layout.nchw is not 4 values/, (p) => p.values[0].layout.nchw.pop()],
  [/header.target.float32_render is not a boolean/, (p) => (p.target.float32_render = 1)],
  [/header.programs\[0\] is not a record/, (p) => (p.programs[0] = null)],
  [/texture 0 has no texels/, (p) => (p.textures[0].width = 0)],
  [/texture 0 has no texels/, (p) => (p.textures[0].height = -5)],
  [/bytes of textures/, (p) => Object.assign(p.textures[0], { width: 65536, height: 65536 })],
  [
    /too small for the Plan: texture side 8192 of at most 4096/,
    (p) => (p.textures[0].width = 8192),
  ],
  [/texture layers 999 of at most 256/, (p) => p.textures.push({ ...p.textures[0], layers: 999 })],
  [/wrong sampler name/, (p) => (p.programs[0].samplers[0] = "x; void")],
  [/render targets 9 of at most 4/, (p) => p.programs.push({ ...p.programs[0], targets: 9 })],
  [
    /texture units 17 of at most 16/,
    (p) => p.programs.push({ ...p.programs[0], samplers: Array(17).fill("x") }),
  ],
  [/input "x" names no program or output/, (p) => (p.inputs[0].pack_pass.program = 1)],
  [/input "x" names no program or output/, (p) => (p.inputs[0].pack_pass.output = -1)],
  [/input "x" reads a texture that does not exist/, (p) => (p.inputs[0].pack_pass.inputs[1] = 4)],
  [/input "x" has 1 inputs/, (p) => p.inputs[0].pack_pass.inputs.pop()],
  [/reads what it writes/, (p) => (p.inputs[0].pack_pass.inputs[1] = 1)],
  [/writes 1 of 2 layers/, (p) => (p.textures[1].layers = 2)],
  [/empty viewport/, (p) => (p.inputs[0].pack_pass.viewport[0] = 0)],
  [/draws outside its output/, (p) => (p.inputs[0].pack_pass.viewport[1] = 3)],
  [/its uniforms at 256 of 512/, (p) => (p.inputs[0].pack_pass.uniforms = 256)],
  [/its uniforms at -256/, (p) => (p.inputs[0].pack_pass.uniforms = -256)],
  [/costs -1/, (p) => (p.inputs[0].pack_pass.cost = -1)],
  [/value "x" has no texture/, (p) => (p.values[0].texture = 9)],
  [/value "x" has 15 layout words/, (p) => p.values[0].layout_words.pop()],
  [/value "x" has an empty layout/, (p) => (p.values[0].layout_words[4] = 0)],
  [/value "x" does not fit its texture/, (p) => (p.values[0].layout_words[14] = 4)],
  [/value "x" does not fit its texture/, (p) => (p.values[0].layout_words[10] = 2)],
  [/value "x" reads 25 elements/, (p) => (p.values[0].readback.count = 25)],
  [/reads more than it draws/, (p) => (p.values[0].readback.draw_pass.viewport[0] = 2)],
  [/value "x" exists twice/, (p) => p.values.push(p.values[0])],
  [/does not read its staging texture/, (p) => (p.inputs[0].staging = 2)],
  [/does not fit its staging texture/, (p) => (p.inputs[0].shape = [1, 4, 2, 4])],
  [/input "x" has a wrong shape/, (p) => (p.inputs[0].shape = [1, 4, 2, -3])],
  [/a batch of 0/, (p) => (p.batch = 0)],
  [/value "x" is shown as 1×4×2×4/, (p) => (p.values[0].nchw[3] = 4)],
  [/value "x" is shown as -1×-4×2×3/, (p) => (p.values[0].nchw = [-1, -4, 2, 3])],
  [/values\[0\].nchw is not 4 values/, (p) => p.values[0].nchw.pop()],
  [/value "x" reads 24 elements/, (p) => (p.values[0].shape = [1, 4, -2, -3])],
  [/value "x" is edited as "y"/, (p) => (p.values[0].shares_edits_of = "y")],
  [/output "y" is not a value/, (p) => (p.outputs = ["y"])],
  [/a comparison of "x" names a value that/, (p) => (p.comparison.pairs[0].difference = "y")],
  [/a comparison of "x" names a value that/, (p) => (p.comparison.pairs[0].row = 2)],
  [/a comparison of "x" names a value that/, (p) => (p.comparison.table = "y")],
  [/header.comparison is not a record/, (p) => (p.comparison = 5)],
  [/field map 0 has 1 axes/, (p) => p.field_maps[0].windows.pop()],
  [/field map 0 has 3298534883328 positions/, (p) => (p.field_maps[0].input_sizes[0] = 2 ** 40)],
  [/field map 0 has -1 positions/, (p) => (p.field_maps[0].output_sizes = [-2])],
  [/field map 0 names an axis twice/, (p) => (p.field_maps[0].windows[1].axis = 0)],
  [/field map 0 reads along axis 2/, (p) => (p.field_maps[0].windows[1].axis = 2)],
  [
    /field map 0 has a window of 1099511627776/,
    (p) => (p.field_maps[0].windows[0].kernel = 2 ** 40),
  ],
  [/field map 0 has 3 rows/, (p) => (p.field_maps[0].windows[0].table = [[0], [1], [0]])],
  [
    /field map 0 reads outside of its source/,
    (p) => (p.field_maps[0].windows[0].table = [[0], [2]]),
  ],
  [/layer "l" has positions along axes 3,2/, (p) => (p.layers[0].position_axes = [3, 2])],
  [/layer "l" has positions along axes 4/, (p) => (p.layers[0].position_axes = [4])],
  [/layer "l" reads by field map 1/, (p) => (p.layers[0].dependencies[0][2] = 1)],
  [/layer "l" reads 1 for 7/, (p) => (p.layers[0].dependencies[0][0] = 7)],
  [/layer "l" reads 0 for 0/, (p) => (p.layers[0].dependencies[0][1] = 0)],
  [/layer "l" reads 1 for 0/, (p) => (p.layers[0].output_shape = [1, 4, 2, 4])],
  [/input "x" has positions along axes 0,9/, (p) => (p.inputs[0].position_axes = [0, 9])],
  [/a weight has no hash/, (p) => (p.weights[0].hash = "__proto__")],
  [/weight .* has no texture/, (p) => (p.weights[0].texture = 4)],
];

test("a number that points outside what it should is named", () => {
  for (const [message, change] of DAMAGE) {
    assert.throws(
      () => {
        const { plan } = parsePlan(makePlanFile(planHeader(change)));
        checkPlan(plan, 512, plan.target);
      },
      { name: "PlanError", message },
      String(message),
    );
  }
});

test("a file with any bit flipped is refused by its checksum", () => {
  const whole = makePlanFile({ version: VERSION });
  const message = /damaged Plan file: its checksum is [0-9a-f]{8}, not|first 8 bytes differ/;
  for (let bit = 0; bit < 8 * whole.length; bit++) {
    whole[bit >> 3] = (whole[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    assert.throws(() => parsePlan(whole), { name: "PlanError", message }, `bit ${bit}`);
    whole[bit >> 3] = (whole[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  }
  assert.throws(() => parsePlan(whole), /header is not a PlanHeader/);
});

test("the checksum is zlib's for every length and address, in one piece or two", () => {
  const bytes = Uint8Array.from({ length: 100 }, (_, k) => k * k);
  for (let from = 0; from < 9; from++) {
    for (let to = from; to <= bytes.length; to++) {
      const piece = bytes.subarray(from, to);
      assert.equal(crc32(piece), zlib.crc32(piece));
      assert.equal(crc32(piece.subarray(5), crc32(piece.subarray(0, 5))), zlib.crc32(piece));
    }
  }
});

test("a file with any byte changed is read or refused, never worse", () => {
  const whole = makePlanFile(planHeader());
  for (let k = 0; k < whole.length; k += 1) {
    const changed = whole.slice();
    changed[k] = ((changed[k] ?? 0) + 1 + ((k * 37) % 255)) % 256;
    try {
      parsePlan(withChecksum(changed));
    } catch (error) {
      assert.equal((error as Error).name, "PlanError", `byte ${k}: ${error}`);
    }
  }
});

test("one pass is no passes", () => {
  assert.equal(formatPassCount(1), "1 pass");
  assert.equal(formatPassCount(0), "0 passes");
  assert.equal(formatPassCount(2100), "2,100 passes");
});
