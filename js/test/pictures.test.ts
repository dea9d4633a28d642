// Sizes, places and colours of pictures, and the words of errors: all that needs no GL.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  colorMapTexels,
  colorMapTextureLayer,
  colorRamp,
  parseColor,
} from "../src/pictures/colormaps.ts";
import { COLORMAP_TEXEL_COUNT } from "../src/pictures/colortables.ts";
import { type MosaicOptions, mosaicSize, packAtlases } from "../src/pictures/mosaic.ts";
import { formatList, shaderMessage } from "../src/plan/error_text.ts";
import { splitValueIntoStrips } from "../src/plan/uniforms.ts";
import { summarizeChannel, summarizeChannels } from "../src/statistics/summary.ts";
import { countClasses } from "../src/views/overlay/class_counts.ts";

test("a mosaic has no gap outside", () => {
  const options = { count: 5, columns: 3, gap: 2, scale: 2 };
  assert.deepEqual(mosaicSize(7, 4, options), {
    mapWidth: 8,
    mapHeight: 14,
    width: 28,
    height: 30,
  });
  const few = mosaicSize(7, 4, { ...options, count: 2 });
  assert.deepEqual([few.width, few.height], [18, 14]);
  const small = mosaicSize(100, 3, { ...options, count: 1, scale: 0.1 });
  assert.deepEqual([small.width, small.height], [1, 10]);
});

test("numbers that make no picture are refused", () => {
  const options = { count: 5, columns: 3, gap: 2, scale: 2 };
  const wrongs: readonly Partial<MosaicOptions>[] = [
    { scale: 0 },
    { scale: 1.5 },
    { scale: Number.NaN },
    { columns: 0 },
    { curveSize: [0, 4] },
    { curveSize: [2.5, 4] },
    { gap: 0.5 },
  ];
  for (const wrong of wrongs) {
    assert.throws(() => mosaicSize(7, 4, { ...options, ...wrong }), RangeError);
  }
});

test("pictures are packed without overlap, each once", () => {
  const items = Array.from({ length: 200 }, (_, k) => ({
    width: 1 + ((k * 31) % 97),
    height: 1 + ((k * 57) % 83),
  }));
  const atlases = packAtlases(items, 256);
  assert.ok(atlases.length > 1);
  const placed = atlases.flatMap((atlas) => atlas.packedItems.map((one) => one.item));
  assert.equal(new Set(placed).size, items.length);
  for (const { width, height, packedItems } of atlases) {
    assert.ok(width <= 256 && height <= 256);
    const taken = new Set<number>();
    for (const { item, x, y } of packedItems) {
      assert.ok(x + item.width <= width && y + item.height <= height);
      for (let row = y; row < y + item.height; row++) {
        for (let column = x; column < x + item.width; column++) {
          assert.ok(!taken.has(row * 256 + column));
          taken.add(row * 256 + column);
        }
      }
    }
  }
  assert.deepEqual(packAtlases([], 256), []);
});

test("the signed maps have the design's stops, zero in the middle texel", () => {
  const texels = colorMapTexels();
  const at = (layer: number, k: number) => {
    const from = (layer * COLORMAP_TEXEL_COUNT + k) * 4;
    return [...texels.subarray(from, from + 4)];
  };
  assert.equal(texels.length, 8 * COLORMAP_TEXEL_COUNT * 4);
  const light = colorMapTextureLayer("signed", "light");
  assert.deepEqual(at(light, 1), [0x6b, 0x2b, 0x00, 255]);
  assert.deepEqual(at(light, 256), [255, 255, 255, 255]);
  assert.deepEqual(at(light, 511), [0x0b, 0x2f, 0x63, 255]);
  assert.deepEqual(at(colorMapTextureLayer("signed", "dark"), 256), [0x0f, 0x12, 0x16, 255]);
  for (const theme of ["light", "dark"] as const) {
    assert.deepEqual(at(colorMapTextureLayer("viridis", theme), 0), [0x44, 0x01, 0x54, 255]);
    assert.deepEqual(at(colorMapTextureLayer("cividis", theme), 511), [253, 234, 69, 255]);
    assert.deepEqual(at(colorMapTextureLayer("magma", theme), 0), [0, 0, 4, 255]);
    assert.deepEqual(at(colorMapTextureLayer("grey", theme), 511), [255, 255, 255, 255]);
  }
});

test("classes are counted by the largest score of each place, the first of equals", () => {
  const scores = Float32Array.of(1, 5, 2, Number.NaN, 1, 5, 3, 0, 0, 6, 3, 9);
  assert.deepEqual(countClasses(scores, 3), [
    { classIndex: 0, count: 1 },
    { classIndex: 1, count: 1 },
    { classIndex: 2, count: 1 },
  ]);
  const classes = Float32Array.of(7, 7, 2, 7, Number.NaN, 2);
  assert.deepEqual(countClasses(classes, 1), [
    { classIndex: 7, count: 3 },
    { classIndex: 2, count: 2 },
  ]);
});

test("stops are joined in linear light", () => {
  const [r] = colorRamp([parseColor("#000000"), parseColor("rgb(255, 255, 255)")])(0.5);
  assert.equal(Math.round(r), 188); // half the light, not half the byte
});

test("a shader's error shows the lines it speaks of", () => {
  const source = Array.from({ length: 200 }, (_, k) => `line ${k + 1}`).join("\n");
  const message = shaderMessage('conv"', "ERROR: 0:150: 'x' : undeclared\0", source);
  assert.match(message, /refuses the shader "conv\\"": ERROR: 0:150: 'x' : undeclared\n/);
  assert.match(message, / {2}150 > line 150\n {2}151 {3}line 151/);
  assert.equal(message.split("\n").length, 6);
  assert.match(shaderMessage("p", "", "x"), /the browser gives no reason/);
});

test("names are listed as people do", () => {
  assert.equal(formatList([]), "none");
  assert.equal(formatList(["a"]), '"a"');
  assert.equal(formatList(["a", "b", "c"]), '"a", "b" and "c"');
  assert.equal(formatList(["a", "b", "c", "d"], 2), '"a", "b" and 2 more');
});

test("strips cover a map with both walks short", () => {
  for (const [w, h, by, bx] of [
    [7, 7, 1, 1],
    [112, 112, 2, 2],
    [1, 3000, 1, 1],
    [2000, 1, 1, 4],
    [500, 500, 1, 1],
  ] as const) {
    const layout_words = [1, 4, h * by, w * bx, w, h, 1, 1, 1, by, bx, 1, 1, 1, w, h];
    const nchw = [1, 4, h * by, w * bx] as const;
    const layout = { nchw, block: [1, by, bx], phases: [1, 1], max_side: 0 } as const;
    const { stripCount, linesPerStrip } = splitValueIntoStrips({ nchw, layout_words, layout });
    const all = h * by * bx;
    assert.ok(stripCount * linesPerStrip >= all && (stripCount - 1) * linesPerStrip < all);
    assert.ok(linesPerStrip * w <= Math.max(256, 2 * Math.sqrt(all * w), w));
    assert.ok(stripCount <= Math.max(1, 2 * Math.sqrt(all * w)));
  }
});

test("channels without a finite value don't count", () => {
  const empty = {
    pixelCount: 4,
    low: 3.4e38,
    high: -3.4e38,
    scaledSum: 0,
    finiteCount: 0,
    scaledSquaredDeviations: 0,
    zeros: 0,
    nan: 3,
    inf: 1,
  };
  const four = {
    ...empty,
    low: 1,
    high: 3,
    scaledSum: 2,
    finiteCount: 4,
    scaledSquaredDeviations: 1 / 18,
    nan: 0,
    inf: 0,
  };
  assert.deepEqual(summarizeChannel(empty).mean, Number.NaN);
  assert.deepEqual(summarizeChannel(empty).min, Number.NaN);
  const both = summarizeChannels([empty, four]);
  assert.equal(both.mean, 2);
  assert.equal(both.min, 1);
  assert.ok(Math.abs(both.std - Math.SQRT1_2) < 1e-12);
  assert.equal(both.nan, 3);
  assert.equal(both.zeroFraction, 0);
});
