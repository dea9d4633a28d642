// What the views compute before anything is drawn: stages, layout, order, words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chainTitle, leafName, relativeName, shortenName } from "../src/network/layer_names.ts";
import {
  formatLayerCount,
  groupIntoStages,
  layerCaption,
  layerCountText,
  layerSettingsText,
  layerText,
} from "../src/network/network.ts";
import * as format from "../src/number_format.ts";
import type { Statistics, Summary } from "../src/plan/runtime.ts";
import type { PlanHeader } from "../src/plan/schema.ts";
import { channelOrder, gridLayout } from "../src/views/channel_order.ts";
import { valueRank } from "../src/views/channel_similarity.ts";
import { inputChannelOf, type Kernels, kernelStart } from "../src/views/layer_weights.ts";
import * as layout from "../src/views/layout.ts";
import { makeLayer } from "./layer_records.ts";

const INPUT = new Set(["x"]);

test("Conv, BatchNorm and activation are one stage that shows the last", () => {
  const layers = [
    makeLayer("encoder.0", "Conv", ["x"]),
    makeLayer("encoder.1", "BatchNormalization", ["encoder.0"]),
    makeLayer("encoder.2", "Relu", ["encoder.1"]),
    makeLayer("encoder.3", "MaxPool", ["encoder.2"]),
    makeLayer("encoder.4", "Conv", ["encoder.3"]),
  ];
  const stages = groupIntoStages(layers, INPUT);
  assert.deepEqual(
    stages.map((stage) => [stage.title, stage.valueKey, stage.layers.length, stage.groupModule]),
    [
      ["encoder.0–2", "encoder.2", 3, "encoder"],
      ["encoder.3", "encoder.3", 1, "encoder"],
      ["encoder.4", "encoder.4", 1, "encoder"],
    ],
  );
  assert.ok(stages.every((stage) => stage.inputTitles.length === 0));
});

test("a chain ends where a skip begins, and says what it reads", () => {
  const layers = [
    makeLayer("b.conv1", "Conv", ["x"]),
    makeLayer("b.relu", "Relu", ["b.conv1"]),
    makeLayer("b.conv2", "Conv", ["b.relu"]),
    makeLayer("b.bn2", "BatchNormalization", ["b.conv2"]),
    makeLayer("add", "Add", ["b.bn2", "b.relu"], { module: "" }),
    makeLayer("b.relu:1", "Relu", ["add"]),
  ];
  const [first, second, sum] = groupIntoStages(layers, INPUT);
  assert.equal(first?.title, "b.conv1–relu");
  assert.equal(second?.title, "b.conv2–bn2");
  assert.deepEqual(sum?.inputTitles, ["b.conv2–bn2", "b.conv1–relu"]);
  assert.equal(sum?.groupModule, "b", "an addition belongs to the module around it");
  // The first convolution's own value is read twice: it must stay visible.
  const skipping = groupIntoStages(
    [
      makeLayer("a", "Conv", ["x"]),
      makeLayer("r", "Relu", ["a"]),
      makeLayer("s", "Add", ["r", "a"]),
    ],
    INPUT,
  );
  assert.deepEqual(
    skipping.map((stage) => stage.valueKey),
    ["a", "r", "s"],
  );
});

test("a sum that a module gives back stays in it, with what passes it on", () => {
  const layers = [
    makeLayer("a.conv", "Conv", ["x"]),
    makeLayer("add", "Add", ["a.conv", "x"], { module: "" }),
    makeLayer("a.drop", "Identity", ["add"]),
    makeLayer("b.norm", "BatchNormalization", ["a.drop"]),
    makeLayer("b.conv", "Conv", ["b.norm"]),
  ];
  const chains = (returns?: (key: string) => readonly string[]) =>
    groupIntoStages(layers, INPUT, new Map([["a.drop", "add"]]), returns).map((stage) =>
      stage.layers.map(({ name }) => name).join(),
    );
  assert.deepEqual(chains(), ["a.conv", "add,a.drop,b.norm", "b.conv"]);
  const returns = (key: string) => (key === "add" || key === "a.drop" ? ["a"] : []);
  assert.deepEqual(chains(returns), ["a.conv", "add,a.drop", "b.norm", "b.conv"]);
});

test("layers that pass a value on neither end a chain nor hide who reads it", () => {
  const layers = [
    makeLayer("0", "Conv", ["x"]),
    makeLayer("1", "Identity", ["0"]),
    makeLayer("2", "Relu", ["0"]),
    makeLayer("3", "Flatten", ["2"]),
    makeLayer("4", "Gemm", ["2"]),
  ];
  const aliases = new Map([
    ["1", "0"],
    ["3", "2"],
  ]);
  const stages = groupIntoStages(layers, INPUT, aliases);
  assert.deepEqual(
    stages.map((stage) => stage.layers.map((one) => one.name).join()),
    ["0,1,2", "3,4"],
  );
  assert.deepEqual(
    stages.map((stage) => stage.inputTitles),
    [[], []],
  );
});

test("a network of two inputs says which of them a stage reads", () => {
  const both = new Set(["picture", "sound"]);
  const [left, right] = groupIntoStages(
    [makeLayer("left", "Conv", ["picture"]), makeLayer("right", "Conv", ["sound"])],
    both,
  );
  assert.deepEqual([left?.inputTitles, right?.inputTitles], [["picture"], ["sound"]]);
});

test("titles join what names share", () => {
  assert.equal(chainTitle(["encoder.0"]), "encoder.0");
  assert.equal(chainTitle(["encoder.0", "encoder.1", "encoder.2"]), "encoder.0–2");
  assert.equal(chainTitle(["conv1", "bn1", "relu"]), "conv1–relu");
  assert.equal(chainTitle(["a.conv", "b.bn"]), "a.conv – b.bn");
  assert.equal(chainTitle(["/layer1/Conv", "/layer1/Relu"]), "/layer1/Conv–Relu");
  assert.equal(chainTitle(["block.0: add", "block.0: relu"]), "block.0: add–relu");
  assert.equal(chainTitle(["attn: q @ k.T"]), "attn: q @ k.T");
});

test("a name that is too long ends as it does", () => {
  const names = [
    ["attn.softmax", "attn.softmax"],
    ["downsample.0", "downsample.0"],
    ["attention.output.project", "…project"],
    ["attn: unbind.slice:1", "…slice:1"],
    ["attn: weights @ v", "…weights @ v"],
    ["/block/layer/Conv_12", "…layer/Conv_12"],
    ["averylongnamewithoutanyparts", "averylo…yparts"],
  ] as const;
  for (const [name, short] of names) {
    assert.equal(shortenName(name, 14), short);
    assert.ok(short.length <= 14);
  }
});

test("an operator stands below the module whose code calls it", () => {
  assert.equal(leafName("blocks.0.attn: q @ k.T"), "q @ k.T");
  assert.equal(leafName("blocks.0.attn.qkv"), "qkv");
  assert.equal(relativeName("blocks.0: relu", "blocks.0"), "relu");
  assert.equal(relativeName("blocks.0: relu", "blocks"), "0: relu");
  const functional = { module: "" };
  const [, sum, product, outside] = groupIntoStages(
    [
      makeLayer("block.conv", "Conv", ["x"]),
      makeLayer("block:1: add", "Add", ["block.conv", "x"], functional),
      makeLayer("block.attn: q @ k.T", "MatMul", ["block:1: add", "x"], functional),
      makeLayer("12", "Add", ["block.attn: q @ k.T", "x"], { ...functional, label: "Add 12" }),
    ],
    new Set(["x"]),
    new Map(),
    () => ["block", "block.attn"],
  );
  assert.deepEqual(sum?.modules, ["block"]);
  assert.deepEqual(product?.modules, ["block", "block.attn"]);
  assert.deepEqual([outside?.modules, outside?.title], [[], "Add 12"]);
});

test("captions say what windows look at, and how wide a layer is", () => {
  const window = (kernel: number[], strides: number[], dilations = kernel.map(() => 1)) => ({
    ...{ kernel, strides, dilations, pads_begin: [], pads_end: [] },
  });
  const shapes = (input: number[], output: number[], places: number[]) => ({
    ...{ input_shapes: [input], output_shape: output, position_axes: places, parameters: 9 },
  });
  const conv = makeLayer("l", "Conv", [], {
    window: window([4, 4], [2, 2]),
    ...shapes([1, 16, 8, 8], [1, 32, 4, 4], [2, 3]),
  });
  assert.equal(layerSettingsText(conv), "4×4, 16→32, stride 2");
  assert.equal(layerCaption(conv), "Conv 4×4, 16→32, stride 2");
  const odd = makeLayer("l", "Conv", [], {
    ...shapes([2, 6, 9], [2, 6, 9], [2]),
    window: window([3], [1], [4]),
    attributes: { group: 6 },
  });
  assert.equal(layerSettingsText(odd), "3, 6→6, dilation 4, groups 6");
  const pool = makeLayer("l", "MaxPool", [], {
    ...shapes([1, 8, 8, 8], [1, 8, 8, 4], [2, 3]),
    window: window([1, 3], [1, 2]),
    parameters: 0,
  });
  assert.equal(layerSettingsText(pool), "1×3, stride 1×2");
  const dense = makeLayer("l", "Gemm", [], shapes([1, 192], [1, 30], []));
  assert.equal(layerSettingsText(dense), "192→30");
  const tokens = makeLayer("l", "MatMul", [], shapes([1, 65, 32], [1, 65, 96], [1]));
  assert.equal(layerSettingsText(tokens), "32→96");
  assert.equal(layerSettingsText(makeLayer("l", "Relu", [])), "");
});

const TOUR_LAYERS = [
  { channels: 32, height: 14, width: 14 },
  { channels: 64, height: 7, width: 7 },
  null,
  { channels: 64, height: 7, width: 7 },
  { channels: 32, height: 14, width: 14 },
];
const stripRoom = (css: number, ratio: number, height: number) => ({
  width: (css - 48) * ratio,
  height: height * ratio,
  arrowWidth: 20 * ratio,
  captionWidths: TOUR_LAYERS.map(() => 92 * ratio),
  barsWidth: 54 * ratio,
  minTileSide: 20 * ratio,
  gap: ratio,
  pixelRatio: ratio,
});
type Room = ReturnType<typeof stripRoom>;
const stripLength = (line: layout.StripLayout, room: Room): number =>
  line.mosaics.reduce(
    (sum, one, i) => sum + Math.max(one?.width ?? room.barsWidth, room.captionWidths[i] ?? 0),
    (line.mosaics.length + 1) * room.arrowWidth + 2 * line.maxEndpointSide,
  );

test("where there is room a line has all channels at one scale", () => {
  const maps = TOUR_LAYERS.map((one) => one && { ...one, height: 14, width: 14 });
  const room = stripRoom(1420, 1, 252);
  const line = layout.oneLineLayout(maps, 2, room);
  assert.equal(line?.scale, 2);
  assert.ok(line && stripLength(line, room) <= room.width);
  assert.deepEqual(
    line.mosaics.map((one) => one?.shownCount),
    maps.map((one) => one?.channels),
  );
});

test("an autoencoder fits a line: maps of 20 pixels, the largest pictures outside", () => {
  for (const [css, ratio, height] of [
    [1420, 1, 252],
    [1200, 2, 252],
    [1120, 1, 235],
    [900, 1, 189],
    [848, 2, 180],
  ] as const) {
    const room = stripRoom(css, ratio, height);
    assert.equal(layout.oneLineLayout(TOUR_LAYERS, 2, room), null, "7×7 would have 14 pixels");
    const line = layout.boxedLineLayout(TOUR_LAYERS, 2, room);
    assert.ok(line !== null, `${css} px`);
    assert.ok(stripLength(line, room) <= room.width && stripLength(line, room) > 0.85 * room.width);
    for (const [i, one] of line.mosaics.entries()) {
      const maps = TOUR_LAYERS[i] ?? null;
      if (one === null || maps === null) continue;
      const tile = maps.width * one.scale;
      assert.ok(tile >= 20 * ratio && Number.isInteger(one.scale));
      assert.ok(one.height <= room.height && one.columns * one.rows >= one.shownCount);
      assert.ok(one.width <= line.maxEndpointSide);
      if (css >= 1200) assert.equal(one.shownCount, maps.channels);
      else assert.equal(one.shownCount, Math.min(maps.channels, one.columns * one.rows));
    }
  }
  assert.equal(
    layout.boxedLineLayout(TOUR_LAYERS, 2, stripRoom(620, 1, 180)),
    null,
    "captions have no room",
  );
});

test("a line says no rather than shrink maps below a device pixel", () => {
  const room = stripRoom(1148, 1, 250);
  assert.equal(layout.oneLineLayout([{ channels: 64, height: 112, width: 112 }], 2, room), null);
  assert.equal(layout.oneLineLayout([{ channels: 3, height: 300, width: 300 }], 2, room), null);
});

test("rows fill the width, with boxes in which the ends' pictures are not small", () => {
  for (const width of [572, 800, 1072, 1372]) {
    const { columns, box } = layout.rowLayout(width, 20, []);
    assert.ok(columns * (box + 20) <= width && width - columns * (box + 20) < columns);
    assert.ok(box >= 112 && columns >= 4);
  }
  assert.equal(layout.rowLayout(800, 20, []).columns, 6);
  // 64 pixels double in boxes of 140, but not in those of 113.
  assert.deepEqual(layout.rowLayout(800, 20, [64]), { columns: 5, box: 140 });
});

test("a mosaic of all channels is as large as its box allows and leaves no gap", () => {
  for (const [channels, side, box, columns, scale] of [
    [8, 32, 140, 4, 1],
    [32, 14, 252, 8, 2],
    [12, 7, 132, 4, 4],
    [1, 64, 140, 1, 2],
    [4, 200, 202, 2, 1 / 2],
  ] as const) {
    const maps = { channels, height: side, width: side };
    const one = layout.fullMosaic(maps, { width: box, height: box }, 1, 20);
    assert.deepEqual([one.shownCount, one.columns, one.scale], [channels, columns, scale]);
    assert.ok(one.width <= box && one.height <= box);
  }
});

test("a box holds whole maps, some of them where all do not fit", () => {
  const box = { width: 132, height: 132 };
  for (const [channels, side, shown] of [
    [64, 112, 4],
    [64, 56, 4],
    [128, 28, 16],
    [256, 14, 16],
    [512, 7, 36],
    [3, 7, 3],
    [1, 300, 1],
  ] as const) {
    const one = layout.boxMosaic({ channels, height: side, width: side }, box, 1, 20);
    assert.equal(one.shownCount, shown, `${channels}×${side}×${side}`);
    assert.ok(one.width <= box.width && one.height <= box.height, `${one.width}×${one.height}`);
    const part = one.scale >= 1 ? one.scale : 1 / one.scale;
    assert.ok(Math.abs(part - Math.round(part)) < 1e-9, "whole map pixels");
  }
});

test("scales are whole, or one whole-th", () => {
  assert.equal(layout.fitScale(14, 80), 5);
  assert.equal(layout.fitScale(80, 80), 1);
  assert.equal(layout.fitScale(81, 80), 1 / 2);
  assert.equal(layout.fitScale(224, 60), 1 / 4);
  assert.equal(layout.tileSide(7, 1 / 3), 3);
});

test("ranking puts the largest first, ties in order and NaN last", () => {
  assert.deepEqual(
    layout.argsortDescending([1, Number.NaN, 3, 1, Number.POSITIVE_INFINITY]),
    [4, 2, 0, 3, 1],
  );
  const channels = [0, 2, Number.NaN, 2].map((std) => ({ std, nan: 0, inf: 0 }));
  assert.deepEqual(layout.rankByVariation(channels), [1, 3, 0, 2]);
});

test("channels with NaN or infinity stand before those that vary most", () => {
  const channels = [
    { std: 3, nan: 0, inf: 0 },
    { std: Number.NaN, nan: 9, inf: 0 },
    { std: 5, nan: 0, inf: 0 },
    { std: 0, nan: 0, inf: 1 },
  ];
  assert.deepEqual(layout.rankByVariation(channels), [1, 3, 2, 0]);
});

test("layers are counted by the rows of the table, those of two networks apart", () => {
  const layers = ["A.x", "A.y", "B.x"].map((name) => ({ name }));
  const plan = { layers, comparison: { pairs: [] } } as unknown as PlanHeader;
  assert.equal(layerCountText(plan), "3 layers");
  const two = { ...plan, comparison: { pairs: [{}] } } as unknown as PlanHeader;
  assert.equal(layerCountText(two), "2 + 1 layers");
  assert.equal(formatLayerCount(two, ["A.x", "B.x"]), "1 + 1");
});

const makeSummary = (mean: number, max: number, std: number): Summary => {
  return { min: 0, max, mean, std, zeroFraction: 0, nan: 0, inf: 0 };
};

test("a grid sorts by number, mean, maximum or variance", () => {
  const channels = [makeSummary(1, 5, 0.1), makeSummary(3, 4, 0.2), makeSummary(2, 6, 0.3)];
  const statistics: Statistics = { sequence: 1, image: 0, layer: makeSummary(0, 0, 0), channels };
  assert.deepEqual(channelOrder(3, "number", statistics), [0, 1, 2]);
  assert.deepEqual(channelOrder(3, "mean", statistics), [1, 2, 0]);
  assert.deepEqual(channelOrder(3, "max", statistics), [2, 0, 1]);
  assert.deepEqual(channelOrder(3, "variance", statistics), [2, 1, 0]);
  assert.deepEqual(channelOrder(3, "variance", null), [0, 1, 2]);
});

test("a grid fills its width with whole map pixels", () => {
  for (const ratio of [1, 1.5, 2]) {
    for (const width of [330, 372, 524, 822, 1400]) {
      for (const [count, side] of [
        [32, 14],
        [64, 7],
        [1, 28],
        [5, 224],
        [513, 3],
        [16, 1],
      ] as const) {
        const { columns, scale, gap } = gridLayout(
          { height: side, width: side },
          count,
          width,
          ratio,
        );
        const across = columns * (layout.tileSide(side, scale) + gap) - gap;
        assert.ok(across <= width * ratio, `${count}×${side} in ${width}: ${across}`);
        assert.ok(columns >= 1 && columns <= count);
        assert.ok(Number.isInteger(scale) || Number.isInteger(Math.round(1e9 / scale) / 1e9));
      }
    }
  }
  assert.equal(gridLayout({ height: 14, width: 14 }, 32, 822, 1).columns, 8);
});

test("kernels are found where PyTorch stores them", () => {
  const conv = {
    outputCount: 6,
    inputCount: 2,
    height: 3,
    width: 3,
    isTransposed: false,
    groupCount: 2,
  };
  // weight[4, 1] of 6×2×3×3
  assert.equal(kernelStart(conv as unknown as Kernels, 4, 1), (4 * 2 + 1) * 9);
  assert.equal(inputChannelOf(conv as unknown as Kernels, 4, 1), 3);
  const transposed = {
    outputCount: 6,
    inputCount: 2,
    height: 2,
    width: 2,
    isTransposed: true,
    groupCount: 2,
  };
  // weight of 4×3×2×2: output channel 4 is the second of group 1, its inputs are 2 and 3
  assert.equal(kernelStart(transposed as unknown as Kernels, 4, 1), (3 * 3 + 1) * 4);
  assert.equal(inputChannelOf(transposed as unknown as Kernels, 4, 1), 3);
});

test("the rank of a value is within its own map, ties share the best", () => {
  const values = Float32Array.of(9, 9, 1, 3, 3, 2);
  assert.equal(valueRank(values, 2, 4, 3), 1);
  assert.equal(valueRank(values, 2, 4, 5), 3);
  assert.equal(valueRank(values, 2, 4, 2), 4);
});

test("numbers are rounded for reading, with a real minus", () => {
  const {
    formatShort,
    formatFixed,
    formatExact,
    formatPadded,
    formatPercent,
    formatCount,
    formatDuration,
    formatBytes,
    formatOrdinal,
  } = format;
  assert.deepEqual([0, 0.2286, -0.172, 2.598, 41.26, 123.4, 0.0051, 7e-7, -1e6].map(formatShort), [
    "0",
    "0.23",
    "−0.17",
    "2.60",
    "41.3",
    "123",
    "0.0051",
    "7e−7",
    "−1.0e6",
  ]);
  assert.deepEqual([0.9999, 9.996, 99.96, 0.0999, 99_999].map(formatShort), [
    "1.00",
    "10.0",
    "100",
    "0.10",
    "99999",
  ]);
  assert.deepEqual(
    [0, 2.598, -0.0001, 1.3e-6].map((v) => formatFixed(v)),
    ["0.000", "2.598", "−1.00e−4", "1.30e−6"],
  );
  assert.deepEqual([2.18663239, -1e-8, 16_777_216].map(formatExact), [
    "2.186632",
    "−1.0000e−8",
    "1.6777e7",
  ]);
  assert.deepEqual(
    [-0.001, 0.126].map((v) => formatPadded(v, 2)),
    ["0.00", "0.13"],
  );
  assert.deepEqual(
    [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map(formatShort),
    ["NaN", "∞", "−∞"],
  );
  assert.deepEqual(
    [0.714, 0, 1, 0.0004, 0.9997].map((v) => formatPercent(v)),
    ["71 %", "0 %", "100 %", "< 1 %", "> 99 %"],
  );
  assert.deepEqual([39, 999, 1_700, 168_129, 999_960, 11_689_512].map(formatCount), [
    "39",
    "999",
    "1.7 k",
    "168 k",
    "1.0 M",
    "11.7 M",
  ]);
  assert.deepEqual([0.123, 1.94, 340, 2100].map(formatDuration), [
    "0.12 ms",
    "1.9 ms",
    "340 ms",
    "2.1 s",
  ]);
  assert.deepEqual([4_300, 231_000, 9_960_000, 512_300_000, 999_600_000].map(formatBytes), [
    "4.3 kB",
    "0.23 MB",
    "10 MB",
    "512 MB",
    "1 GB",
  ]);
  assert.deepEqual([0, 2, 10, 21, 112].map(formatOrdinal), [
    "first",
    "third",
    "11th",
    "22nd",
    "113th",
  ]);
});

test("a renderer is called by the name that people know", () => {
  const names = [
    [
      "ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (Subzero) (0x0000C0DE)), SwiftShader driver)",
      "SwiftShader",
    ],
    ["ANGLE (Mesa, llvmpipe (LLVM 15.0.6 256 bits), OpenGL ES 3.2 Mesa)", "llvmpipe"],
    ["ANGLE (Apple, ANGLE Metal Renderer: Apple M2, Unspecified Version)", "ANGLE, Apple M2"],
    [
      "ANGLE (NVIDIA, NVIDIA GeForce RTX 3060 (0x00002504) Direct3D11 vs_5_0 ps_5_0, D3D11)",
      "ANGLE, NVIDIA GeForce RTX 3060",
    ],
    ["Mali-G78", "Mali-G78"],
  ] as const;
  for (const [renderer, name] of names) assert.equal(format.rendererName(renderer), name);
});

test("a layer is told in few words: its window, its channels, its padding", () => {
  const window = (kernel: number[], strides: number[], begins: number[], ends = begins) => ({
    ...{ kernel, strides, pads_begin: begins, pads_end: ends, dilations: kernel.map(() => 1) },
  });
  const shapes = (input: number[], output: number[], places: number[]) => ({
    ...{ input_shapes: [input], output_shape: output, position_axes: places, parameters: 9 },
  });
  const maps = shapes([2, 16, 9, 9], [2, 32, 5, 5], [2, 3]);
  const conv = { ...maps, window: window([3, 3], [1, 1], [1, 1]) };
  assert.equal(layerText(makeLayer("l", "Conv", [], conv)), "Conv 3×3, 16→32, stride 1, padding 1");
  const mirrored = { ...conv, attributes: { padding_mode: "reflect", group: 4 } };
  assert.equal(
    layerText(makeLayer("l", "Conv", [], mirrored), "Conv2d"),
    "Conv2d 3×3, 16→32, stride 1, groups 4, padding 1, reflect",
  );
  const odd = { ...maps, window: window([1, 3], [1, 2], [0, 1], [0, 2]) };
  assert.equal(
    layerText(makeLayer("l", "ConvTranspose", [], odd)),
    "ConvT 1×3, 16→32, stride 1×2, padding 0,1 and 0,2",
  );
  const pool = { ...maps, window: window([2, 2], [2, 2], [0, 0]), parameters: 0 };
  assert.equal(layerText(makeLayer("l", "MaxPool", [], pool)), "MaxPool 2×2, stride 2");
  const dense = shapes([2, 5, 512], [2, 5, 10], [1]);
  assert.equal(
    layerText(makeLayer("l", "MatMul", [], { ...dense, short_name: "Linear" })),
    "Linear 512→10",
  );
  const resized = {
    ...shapes([1, 3, 4, 5], [1, 3, 8, 10], [2, 3]),
    attributes: { mode: "nearest" },
  };
  assert.equal(layerText(makeLayer("l", "Resize", [], resized)), "Resize nearest, 4×5→8×10");
  assert.equal(layerText(makeLayer("l", "Add", [], maps)), "Add", "a sign alone says little");
  const pad = { ...maps, window: window([], [], [2, 2]), attributes: { mode: "edge" } };
  assert.equal(layerText(makeLayer("l", "Pad", [], pad)), "Pad padding 2, edge");
});
