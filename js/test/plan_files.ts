// A small valid Plan for tests, and its file.
import { crc32 } from "node:zlib";
import { ALIGNMENT_BYTES, MAGIC, type PlanHeader, VERSION } from "../src/plan/schema.ts";
import { makeLayer } from "./layer_records.ts";

const HASH = "0123456789abcdef0123456789abcdef";

/** One input through one pass to one value, with one weight; `change` edits it as plain JSON. */
export function planHeader(change: (plan: MutablePlanJson) => void = () => undefined): PlanHeader {
  const pass = (program: number, inputs: number[], output: number, viewport: number[]) => {
    return {
      program,
      inputs,
      output,
      uniforms: 0,
      viewport,
      layer: -1,
      cost: 0,
      input_values: [] as number[],
    };
  };
  const same = (axis: number) => {
    const window = { kernel: 1, stride: 1, dilation: 1, pad_begin: 0, transposed: false };
    return { axis, ...window, padding: "zeros", table: [] as number[][] };
  };
  const layout = { nchw: [1, 4, 2, 3], block: [1, 1, 1], phases: [1, 1], max_side: 0 };
  const value = {
    key: "x",
    kind: "input",
    shape: [1, 4, 2, 3],
    nchw: [1, 4, 2, 3],
    dtype: "float32",
    texture: 1,
    layout,
    layout_words: [1, 4, 2, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 3, 2],
    readback: { draw_pass: pass(0, [1, 3], 2, [3, 2]), count: 24 },
    layer: -1,
    display_kind: "maps",
    tokens: [-1, -1],
    value_range: [null, null],
    edit_pass: -1,
    view_of: -1,
    shares_edits_of: "",
    per_example: true,
    mixing_layer: "",
  };
  const plan = {
    version: VERSION,
    language: "glsl-es-300",
    name: "small",
    observe: "all",
    target: {
      max_texture_size: 4096,
      max_array_layers: 256,
      max_draw_buffers: 4,
      max_texture_units: 16,
      float32_render: true,
      fast_kernels: true,
    },
    textures: [
      { width: 3, height: 2, layers: 1, format: "rgba32f" },
      { width: 3, height: 2, layers: 1, format: "rgba32f" },
      { width: 3, height: 2, layers: 1, format: "rgba32f" },
      { width: 2, height: 1, layers: 1, format: "rgba32f" },
    ],
    programs: [{ name: "p", source: "void main() {}", samplers: ["x0", "w0"], targets: 1 }],
    passes: [],
    sections: [{ name: "forward", first: 0, count: 0, on_demand: false }],
    carries: [],
    tokens: [],
    preprocess: [],
    shared_modules: {},
    arguments: [],
    constants: {},
    weights: [
      { texture: 3, hash: HASH, recipe: { packer: "tensor", sources: ["w"], arguments: {} } },
    ],
    inputs: [
      {
        key: "x",
        shape: [1, 4, 2, 3],
        dtype: "float32",
        staging: 0,
        pack_pass: pass(0, [0, 3], 1, [3, 2]),
        position_axes: [2, 3],
        layer: -1,
        fit: "",
        crop_fraction: 1,
        accepts_any_size: false,
        layout: "NCHW",
        contributed: false,
      },
    ],
    values: [value],
    parameters: [],
    outputs: ["x"],
    layers: [
      makeLayer("l", "Identity", ["x"], {
        output_shape: [1, 4, 2, 3],
        position_axes: [2, 3],
        dependencies: [[0, 1, 0]],
      }),
    ],
    field_maps: [{ output_sizes: [2, 3], input_sizes: [2, 3], windows: [same(0), same(1)] }],
    uniform_bytes: 512,
    batch: 1,
    precision: "float32",
    comparison: {
      titles: ["", ""],
      pairs: [{ name: "x", a: "x", b: "x", difference: "x", row: 0 }],
      only_a: [],
      only_b: [],
      table: "x",
    },
    blobs: { [HASH]: [512, 32] },
  };
  change(plan);
  return plan as unknown as PlanHeader;
}

// biome-ignore lint/suspicious/noExplicitAny: tests break what the types would forbid
type MutablePlanJson = any;

export function makePlanFile(
  plan: unknown,
  body = new Uint8Array(512 + ALIGNMENT_BYTES),
): Uint8Array<ArrayBuffer> {
  const json = new TextEncoder().encode(JSON.stringify(plan));
  const start = Math.ceil((16 + json.length) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
  const bytes = new Uint8Array(start + body.length);
  bytes.set(new TextEncoder().encode(MAGIC));
  new DataView(bytes.buffer).setUint32(8, json.length, true);
  bytes.set(json, 16);
  bytes.set(body, start);
  return withChecksum(bytes);
}

/** A file, or a piece of one, with the checksum of what it is now. */
export function withChecksum(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes);
  if (copy.length < 16) return copy;
  const sum = crc32(copy.subarray(16), crc32(copy.subarray(0, 12)));
  new DataView(copy.buffer).setUint32(12, sum, true);
  return copy;
}
