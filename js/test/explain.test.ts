// What Explain says of a number, beside the same number by its definition, one after the other over whole tensors.
import assert from "node:assert/strict";
import { test } from "node:test";
import { groupNormalization, normalize } from "../src/explain/computation_chain.ts";
import { concatenatedElement, gatheredElement, interpolate } from "../src/explain/data_movement.ts";
import { type FieldExtents, operandExtents, unionExtents } from "../src/explain/field_extents.ts";
import { parseFormula } from "../src/explain/formula.ts";
import { responseNormTerms } from "../src/explain/local_response_norm.ts";
import { createMappings, type Mask, mapMask } from "../src/explain/masks.ts";
import { operandElement, operandElements, operandTensor } from "../src/explain/operand_elements.ts";
import { poolWindow } from "../src/explain/pool.ts";
import { convolutionProducts, denseProducts } from "../src/explain/products.ts";
import { softmaxTerms } from "../src/explain/softmax.ts";
import { coordinates, flatIndex, sizeOf, type Tensor } from "../src/explain/tensor.ts";
import { slidingTaps, transposedTaps } from "../src/explain/window.ts";
import { windowMargins } from "../src/explain/window_margins.ts";
import type { AxisWindow, IndexMap } from "../src/plan/schema.ts";
import { makeLayer, makeOperand } from "./layer_records.ts";

/** Numbers that differ everywhere, the same in every run. */
function randomTensor(key: string, ...shape: number[]): Tensor {
  const data = Float32Array.from({ length: sizeOf(shape) }, (_, i) => Math.sin(i * 12.9898 + 1));
  return { key, shape, data };
}

const elementAt = ({ data, shape }: Tensor, ...where: number[]): number =>
  data[flatIndex(shape, where)] ?? Number.NaN;
const isInside = (one: number, size: number): boolean => one >= 0 && one < size;
const assertNear = (found: number | undefined, expected: number, what: unknown): void =>
  assert.ok(Math.abs((found ?? Number.NaN) - expected) < 1e-9, `${what}: ${found} for ${expected}`);

function inputWindow(
  kernel: readonly number[],
  strides: readonly number[],
  begins: readonly number[],
  dilations: readonly number[] = [1, 1],
) {
  return { kernel, strides, dilations, pads_begin: begins, pads_end: begins };
}

/** Where padding reads, by its kind. */
const REPEATED_PADDINGS: Record<string, (one: number, size: number) => number> = {
  zeros: (one) => one,
  reflect: (one, size) => (one < 0 ? -one : one >= size ? 2 * (size - 1) - one : one),
};

for (const mode of ["zeros", "reflect"]) {
  test(`a convolution's number is the sum of its products, ${mode} around`, () => {
    const [x, weight] = [randomTensor("x", 2, 4, 6, 7), randomTensor("w", 6, 2, 3, 2)];
    const output = [2, 6, 3, 8];
    const window = inputWindow([3, 2], [2, 1], [2, 1], [2, 1]);
    const attributes = { group: 2, ...(mode === "zeros" ? {} : { padding_mode: mode }) };
    const conv = makeLayer("conv", "Conv", ["x"], { attributes, window, output_shape: output });
    for (let i = 0; i < sizeOf(output); i++) {
      const [n = 0, o = 0, y = 0, column = 0] = coordinates(output, i);
      let sum = 0;
      for (let k = 0; k < 2; k++)
        for (let ky = 0; ky < 3; ky++)
          for (let kx = 0; kx < 2; kx++) {
            const repeat = REPEATED_PADDINGS[mode];
            assert.ok(repeat);
            const [sy, sx] = [repeat(2 * y - 2 + 2 * ky, 6), repeat(column - 1 + kx, 7)];
            if (!isInside(sy, 6) || !isInside(sx, 7)) continue;
            sum +=
              elementAt(x, n, 2 * Math.floor(o / 3) + k, sy, sx) * elementAt(weight, o, k, ky, kx);
          }
      assertNear(convolutionProducts(conv, x, weight, i)?.sum, sum, coordinates(output, i));
    }
  });
}

test("a transposed convolution's number is the sum of what its pixels give it", () => {
  const [x, weight] = [randomTensor("x", 2, 4, 3, 4), randomTensor("w", 4, 3, 4, 3)];
  const output = [2, 6, 6, 12];
  const window = inputWindow([4, 3], [2, 3], [1, 0], [1, 2]);
  const attributes = { group: 2 };
  const conv = makeLayer("up", "ConvTranspose", ["x"], {
    attributes,
    window,
    output_shape: output,
  });
  const sums = new Float64Array(sizeOf(output));
  for (let i = 0; i < x.data.length; i++) {
    const [n = 0, c = 0, y = 0, column = 0] = coordinates(x.shape, i);
    for (let o = 0; o < 3; o++)
      for (let ky = 0; ky < 4; ky++)
        for (let kx = 0; kx < 3; kx++) {
          const [oy, ox] = [2 * y - 1 + ky, 3 * column + 2 * kx];
          if (!isInside(oy, 6) || !isInside(ox, 12)) continue;
          const to = flatIndex(output, [n, 3 * Math.floor(c / 2) + o, oy, ox]);
          sums[to] = (sums[to] ?? 0) + (x.data[i] ?? 0) * elementAt(weight, c, o, ky, kx);
        }
  }
  for (const [i, sum] of sums.entries())
    assertNear(convolutionProducts(conv, x, weight, i)?.sum, sum, coordinates(output, i));
});

test("a dense layer's number is a row times a column", () => {
  const [x, weight] = [randomTensor("x", 3, 5), randomTensor("w", 4, 5)];
  const gemm = makeLayer("gemm", "Gemm", ["x"], {
    attributes: { transB: 1 },
    output_shape: [3, 4],
  });
  for (let i = 0; i < 12; i++) {
    const [row = 0, column = 0] = coordinates([3, 4], i);
    let sum = 0;
    for (let k = 0; k < 5; k++) sum += elementAt(x, row, k) * elementAt(weight, column, k);
    assertNear(denseProducts(gemm, x, weight, i)?.sum, sum, [row, column]);
  }
});

test("of equal pixels the first is a maximum's, and NaN is larger than any number", () => {
  const window = inputWindow([2, 3], [1, 1], [0, 0]);
  const most = makeLayer("most", "MaxPool", ["x"], { window, output_shape: [1, 1, 1, 1] });
  const of = (...data: number[]) =>
    poolWindow(most, { key: "x", shape: [1, 1, 2, 3], data: Float32Array.from(data) }, 0)?.argmax;
  assert.equal(of(0, 5, 1, 5, 5, 2), 1);
  assert.equal(of(0, 0, 0, 0, 0, 0), 0);
  assert.equal(of(-3, 9, Number.NaN, Number.NaN, 9, 9), 2);
});

test("an average is divided by the pixels in the map, or by those of the padding too", () => {
  const x = randomTensor("x", 1, 2, 5, 5);
  for (const include of [0, 1]) {
    // In ceil mode: the last window begins in the map and ends behind its padding.
    const window = inputWindow([4, 4], [2, 2], [1, 1]);
    const attributes = { count_include_pad: include };
    const output = [1, 2, 3, 3];
    const mean = makeLayer("mean", "AveragePool", ["x"], {
      attributes,
      window,
      output_shape: output,
    });
    for (let i = 0; i < sizeOf(output); i++) {
      const [n = 0, c = 0, y = 0, column = 0] = coordinates(output, i);
      let [sum, count] = [0, 0];
      for (let ky = 0; ky < 4; ky++)
        for (let kx = 0; kx < 4; kx++) {
          const [sy, sx] = [2 * y - 1 + ky, 2 * column - 1 + kx];
          const own = isInside(sy, 5) && isInside(sx, 5);
          if (own) sum += elementAt(x, n, c, sy, sx);
          if (own || (include === 1 && sy < 6 && sx < 6)) count++;
        }
      const found = poolWindow(mean, x, i);
      assert.equal(found?.divisor, count, `${coordinates(output, i)}`);
      assertNear(found?.value, sum / count, coordinates(output, i));
    }
  }
});

test("a softmax goes along an axis that is counted from either end", () => {
  const x = randomTensor("x", 2, 3, 4);
  for (const axis of [1, -2]) {
    const one = makeLayer("share", "Softmax", ["x"], {
      attributes: { axis },
      output_shape: [2, 3, 4],
    });
    for (let i = 0; i < 24; i++) {
      const [n = 0, , k = 0] = coordinates([2, 3, 4], i);
      const powers = [0, 1, 2].map((c) => Math.exp(elementAt(x, n, c, k)));
      assertNear(
        softmaxTerms(one, x, i)?.value,
        Math.exp(x.data[i] ?? 0) / powers.reduce((a, b) => a + b),
        i,
      );
    }
  }
});

/** What a norm makes of an element, by all that are normalised together. */
function standardize(x: Tensor, i: number, isInGroup: (j: number) => boolean): number {
  const own = [...x.data].filter((_, j) => isInGroup(j));
  const mean = own.reduce((a, b) => a + b) / own.length;
  const variance = own.reduce((sum, v) => sum + (v - mean) ** 2, 0) / own.length;
  return ((x.data[i] ?? 0) - mean) / Math.sqrt(variance + 1e-5);
}

test("norms of the picture itself go by the numbers that belong together", () => {
  const x = randomTensor("x", 2, 6, 3, 2);
  const norms: [string, Record<string, number>, (a: number[], b: number[]) => boolean][] = [
    [
      "GroupNormalization",
      { num_groups: 3 },
      (a, b) => Math.floor((a[1] ?? 0) / 2) === Math.floor((b[1] ?? 0) / 2),
    ],
    ["InstanceNormalization", {}, (a, b) => a[1] === b[1]],
    ["LayerNormalization", { axis: -2 }, (a, b) => a[1] === b[1]],
    ["LayerNormalization", { axis: 1 }, () => true],
  ];
  const tensors = new Map([["x", x]]);
  const operands = [makeOperand(x)];
  for (const [operator, attributes, same] of norms) {
    const norm = makeLayer("norm", operator, ["x"], {
      attributes,
      operands,
      output_shape: x.shape,
    });
    for (let i = 0; i < x.data.length; i++) {
      const own = coordinates(x.shape, i);
      const expected = standardize(x, i, (j) => {
        const other = coordinates(x.shape, j);
        return own[0] === other[0] && same(own, other);
      });
      const found = normalize(x.data[i] ?? 0, groupNormalization(norm, tensors, i));
      assert.ok(Math.abs(found - expected) < 1e-6, `${operator} ${own}: ${found}, ${expected}`);
    }
  }
});

test("a number of a concatenation is one of its parts'", () => {
  const parts = [
    randomTensor("a", 2, 3, 2),
    randomTensor("b", 2, 1, 2),
    randomTensor("c", 2, 4, 2),
  ];
  const tensors = new Map(parts.map((part) => [part.key, part]));
  const operands = parts.map((part) => makeOperand(part));
  const output = [2, 8, 2];
  for (const axis of [1, -2]) {
    const cat = makeLayer("cat", "Concat", ["a", "b", "c"], {
      attributes: { axis },
      operands,
      output_shape: output,
    });
    for (let i = 0; i < sizeOf(output); i++) {
      const [n = 0, c = 0, w = 0] = coordinates(output, i);
      const [k, own] = c < 3 ? [0, c] : c < 4 ? [1, 0] : [2, c - 4];
      const part = parts[k];
      assert.ok(part);
      const found = concatenatedElement(cat, tensors, i);
      assert.deepEqual([found?.key, found?.index], [part.key, flatIndex(part.shape, [n, own, w])]);
      assert.equal(found?.value, elementAt(part, n, own, w));
    }
  }
});

/** Every second place of the middle axis, backwards; and places of a list along the last one. */
const INDEX_MAPS: readonly IndexMap[] = [
  { sizes: [2, 3, 2], strides: [10, -4, 1], offset: 8, axis: -1, table: [] },
  { sizes: [4, 5], strides: [5, 0], offset: 0, axis: 1, table: [4, 0, 3, 0, 1] },
];

test("an operand's elements are those that all its moves lead to", () => {
  const x = randomTensor("x", 4, 5);
  const one = makeOperand(x, [2, 3, 2], INDEX_MAPS);
  const read = operandTensor(one, new Map([["x", x]]));
  assert.deepEqual(read?.shape, [2, 3, 2]);
  const table = [4, 0, 3, 0, 1];
  for (let i = 0; i < 12; i++) {
    const [a = 0, b = 0, c = 0] = coordinates([2, 3, 2], i);
    // Of a 4×5 with its columns in the list's order.
    const before = 8 + 10 * a - 4 * b + c;
    const expected = elementAt(x, Math.floor(before / 5), table[before % 5] ?? -1);
    assert.equal(read?.data[i], expected);
    assert.equal(operandElement(one, new Map([["x", x]]), i)?.value, expected);
  }
});

test("what is chosen by numbers is where they say, counted from the end where negative", () => {
  const x = randomTensor("x", 2, 4, 3);
  const rows = { key: "rows", shape: [2, 2], data: Float32Array.from([3, 0, -1, 2]) };
  const own = { key: "own", shape: [2, 1, 3], data: Float32Array.from([3, 0, -1, 2, -4, 1]) };
  const tensors = new Map([x, rows, own].map((one) => [one.key, one]));
  const wrapped = (row: number): number => (row < 0 ? row + 4 : row);
  const slices = makeLayer("y", "Gather", ["x", "rows"], {
    attributes: { axis: -2 },
    operands: [makeOperand(x), makeOperand(rows)],
    output_shape: [2, 2, 2, 3],
  });
  for (let i = 0; i < 24; i++) {
    const [n = 0, a = 0, b = 0, c = 0] = coordinates([2, 2, 2, 3], i);
    const row = elementAt(rows, a, b);
    const found = gatheredElement(slices, tensors, i);
    assert.equal(found?.indexElement.value, row);
    assert.equal(found?.copied.value, elementAt(x, n, wrapped(row), c));
  }
  const each = makeLayer("y", "GatherElements", ["x", "own"], {
    attributes: { axis: 1 },
    operands: [makeOperand(x), makeOperand(own)],
    output_shape: own.shape,
  });
  for (let i = 0; i < 6; i++) {
    const [n = 0, , c = 0] = coordinates(own.shape, i);
    assert.equal(
      gatheredElement(each, tensors, i)?.copied.value,
      elementAt(x, n, wrapped(own.data[i] ?? 0), c),
    );
  }
});

test("operands are broadcast, and their formula is of their numbers in order", () => {
  const [x, gate] = [randomTensor("x", 2, 3, 2, 4), randomTensor("gate", 3, 1, 1)];
  const tensors = new Map([
    ["x", x],
    ["gate", gate],
  ]);
  const half = { ...makeOperand(x), kind: "number", key: "", number: 0.5, shape: [] } as const;
  const one = makeLayer("y", "Where", ["x", "gate"], {
    explanation: "elementwise",
    operands: [makeOperand(gate), makeOperand(x), half],
    output_shape: x.shape,
  });
  for (let i = 0; i < x.data.length; i++) {
    const [, c = 0] = coordinates(x.shape, i);
    const terms = operandElements(one, tensors, i);
    assert.deepEqual(
      terms?.map(({ key, index, value }) => [key, index, value]),
      [
        ["gate", c, gate.data[c]],
        ["x", i, x.data[i]],
        ["", 0, 0.5],
      ],
    );
  }
});

test("a product of matrices tells which elements each of its products is of", () => {
  const [a, b] = [randomTensor("a", 2, 1, 4, 3), randomTensor("b", 3, 5, 3)];
  const one = makeLayer("y", "MatMul", ["a", "b"], {
    attributes: { transB: 1 },
    output_shape: [2, 3, 4, 5],
  });
  for (let i = 0; i < 120; i++) {
    const [n = 0, m = 0, row = 0, column = 0] = coordinates([2, 3, 4, 5], i);
    const found = denseProducts(one, a, b, i);
    for (let k = 0; k < 3; k++) {
      const [left, right] = found?.factorIndices(k) ?? [];
      assert.equal(left, flatIndex(a.shape, [n, 0, row, k]));
      assert.equal(right, flatIndex(b.shape, [m, column, k]));
      assertNear(
        found?.contributions[k],
        elementAt(a, n, 0, row, k) * elementAt(b, m, column, k),
        i,
      );
    }
  }
});

test("an enlarged pixel is mixed of its neighbours by their distance", () => {
  const x = randomTensor("x", 1, 1, 3, 4);
  const output = [1, 1, 6, 8];
  const attributes = { mode: "linear", coordinate_transformation_mode: "half_pixel" };
  const larger = makeLayer("larger", "Resize", ["x"], { attributes, output_shape: output });
  const clamped = (one: number, size: number): number => Math.min(size - 1, Math.max(0, one));
  for (let i = 0; i < sizeOf(output); i++) {
    const [, , y = 0, column = 0] = coordinates(output, i);
    let expected = 0;
    for (let sy = -1; sy < 4; sy++)
      for (let sx = -1; sx < 5; sx++) {
        const share =
          Math.max(0, 1 - Math.abs((y + 0.5) / 2 - 0.5 - sy)) *
          Math.max(0, 1 - Math.abs((column + 0.5) / 2 - 0.5 - sx));
        expected += share * elementAt(x, 0, 0, clamped(sy, 3), clamped(sx, 4));
      }
    assertNear(interpolate(larger, x, i)?.value, expected, [y, column]);
  }
});

test("a local response goes by the channels around, one more behind where their number is even", () => {
  const x = randomTensor("x", 1, 6, 1, 2);
  for (const [size, before, behind, told] of [
    [4, 1, 2, {}],
    [3, 1, 1, {}],
    [2, 1, 0, { before: 1 }],
  ] as const) {
    const attributes = { ...told, size, alpha: 0.3, beta: 0.6, bias: 1.5 };
    const norm = makeLayer("lrn", "LRN", ["x"], { attributes, output_shape: x.shape });
    for (let i = 0; i < 12; i++) {
      const [, own = 0, , column = 0] = coordinates(x.shape, i);
      let squares = 0;
      for (let c = Math.max(0, own - before); c <= Math.min(5, own + behind); c++)
        squares += elementAt(x, 0, c, 0, column) ** 2;
      assertNear(
        responseNormTerms(norm, x, i).value,
        (x.data[i] ?? 0) / (1.5 + (0.3 / size) * squares) ** 0.6,
        own,
      );
    }
  }
});

test("functions of one number have both their tails, and their thresholds", () => {
  const gelu = parseFormula("x * Phi(x)");
  // x Φ(x) by tables of the normal distribution.
  for (const [x, expected] of [
    [-4, -4 * 3.167124183311998e-5],
    [-0.5, -0.5 * 0.3085375387259869],
    [4, 4 * 0.9999683287581669],
    [-12, 0],
    [12, 12],
  ] as const)
    assertNear(gelu.evaluate(x), expected, `gelu ${x}`);
  const soft = parseFormula("where(1.5 * x > 4, x, softplus(1.5 * x) / 1.5)");
  assertNear(soft.evaluate(2.6), Math.log1p(Math.exp(3.9)) / 1.5, "below the threshold");
  assertNear(soft.evaluate(2.7), 2.7, "above it");
  assertNear(soft.evaluate(-9), Math.log1p(Math.exp(-13.5)) / 1.5, "far below");
});

test("formulas are read as Python reads them, and written as people write them", () => {
  for (const [source, x, expected, text] of [
    ["max(0, x)", -2, 0, "max(0, x)"],
    ["where(x < 0, -0.25 * x, x)", -2, 0.5, "x < 0: −0.25 · x; else x"],
    ["2 - x - 3", 1, -2, "2 − x − 3"],
    ["2 - (x - 3)", 1, 4, "2 − (x − 3)"],
    ["-x ** 2", 3, -9, "−x²"],
    ["8 / x / 2", 2, 2, "8 / x / 2"],
    ["8 / (x * 2)", 2, 2, "8 / (x · 2)"],
    ["1.0 * x", 7, 7, "x"],
    ["x * sigmoid(1.0 * x)", 0, 0, "x · sigmoid(x)"],
    ["1 / (1 + exp(-x))", 0, 0.5, "1 / (1 + e⁻ˣ)"],
    ["1.5 * where(x < 0, 2 * (exp(x) - 1), x)", 4, 6, "1.5 · (x < 0: 2 · (eˣ − 1); else x)"],
    ["softplus(2.0 * x) / 2.0", 0, Math.LN2 / 2, "log(1 + e^(2 · x)) / 2"],
    ["x / (1 + abs(x))", -1, -0.5, "x / (1 + |x|)"],
    ["round(x)", 2.5, 2, "round(x)"],
    ["round(x)", -1.5, -2, "round(x)"],
    ["clip(x, -inf, 6.0)", 9, 6, "clip(x, −Infinity, 6)"],
    ["where(column - row >= 1e0, x, 0)", 5, 5, "4 − 3 ≥ 1: x; else 0"],
    ["a * b", 0, 1.5, "a · b"],
    ["where(a != 0, b, c)", 0, -0.5, "a ≠ 0: b; else c"],
    ["where(b == 0, a, c)", 0, 4, "b = 0: a; else c"],
    ["a - b * floor(a / b)", 0, 0, "a − b · floor(a / b)"],
  ] as const) {
    const found = parseFormula(source, { row: 3, column: 4 }, { a: -3, b: -0.5, c: 4 });
    assertNear(found.evaluate(x), expected, source);
    assert.equal(found.text, text);
  }
  for (const wrong of ["x +", "y", "window(x)", "max(0, x", "x $ 2", "x x"])
    assert.throws(() => parseFormula(wrong), SyntaxError, wrong);
});

test("a window reaches as far beyond the map as at any of its positions", () => {
  const cases: [string, number, number, number, number, number, number][] = [
    // operator, size, kernel, stride, begin, dilation, output
    ["Conv", 7, 3, 2, 1, 1, 4],
    ["Conv", 7, 3, 2, 1, 1, 5],
    ["Conv", 6, 3, 1, 2, 2, 6],
    ["MaxPool", 5, 2, 2, 0, 1, 3],
    ["ConvTranspose", 5, 4, 2, 1, 1, 10],
    ["ConvTranspose", 4, 3, 3, 0, 2, 14],
    ["ConvTranspose", 4, 5, 1, 2, 1, 4],
    ["ConvTranspose", 4, 2, 2, 0, 1, 8],
  ];
  for (const [operator, size, kernel, stride, begin, dilation, output] of cases) {
    const window = inputWindow([kernel], [stride], [begin], [dilation]);
    const shapes = { input_shapes: [[1, 1, size]], output_shape: [1, 1, output] };
    const one = makeLayer("one", operator, ["x"], { window, ...shapes });
    const places = Array.from({ length: output }, (_, x) =>
      operator === "ConvTranspose"
        ? transposedTaps(window, [size], [0, 0, x])?.phaseTaps.columns
        : slidingTaps(window, [size], [0, 0, x])?.columns,
    ).flatMap((lines) => lines?.map((line) => line.inputIndex) ?? []);
    const { left, right, top, bottom } = windowMargins(one);
    const expected = [
      Math.max(0, -Math.min(...places)),
      Math.max(0, Math.max(...places) - size + 1),
    ];
    assert.deepEqual([left, right], expected, `${operator} ${kernel} by ${stride}`);
    assert.deepEqual([top, bottom], [0, 0]);
  }
});

const makeAxisWindow = (change: Partial<AxisWindow>): AxisWindow => ({
  axis: 0,
  kernel: 1,
  stride: 1,
  dilation: 1,
  pad_begin: 0,
  transposed: false,
  padding: "zeros",
  table: [],
  ...change,
});

test("padding repeats the places of a map that its mode says", () => {
  const expected = {
    reflect: [3, 2, 1, 0, 1, 2, 3, 4, 3, 2, 1],
    edge: [0, 0, 0, 0, 1, 2, 3, 4, 4, 4, 4],
    wrap: [2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2],
    zeros: [null, null, null, 0, 1, 2, 3, 4, null, null, null],
  };
  for (const [padding, places] of Object.entries(expected)) {
    const windows = [makeAxisWindow({ pad_begin: 3, padding: padding as AxisWindow["padding"] })];
    const { toInputs } = createMappings({ output_sizes: [11], input_sizes: [5], windows });
    for (const [o, place] of places.entries()) {
      const mask = new Uint8Array(11);
      mask[o] = 1;
      const found = [...mapMask(toInputs, mask).entries()].filter(([, one]) => one === 1);
      assert.deepEqual(
        found.map(([elementAt]) => elementAt),
        place === null ? [] : [place],
        `${padding} ${o}`,
      );
    }
  }
});

test("by theory a field lies where it lies far from all borders", () => {
  const chains: Partial<AxisWindow>[][] = [
    [{ kernel: 3, pad_begin: 1 }],
    [
      { kernel: 3, stride: 2, pad_begin: 1 },
      { kernel: 2, stride: 3, pad_begin: 0, dilation: 2 },
    ],
    [
      { kernel: 4, pad_begin: 2, transposed: true },
      { kernel: 3, stride: 2, pad_begin: 0 },
    ],
    [
      { kernel: 2, stride: 2, pad_begin: 0 },
      { kernel: 5, pad_begin: 1, transposed: true, dilation: 2 },
      { kernel: 3, stride: 2, pad_begin: 1 },
    ],
  ];
  const size = 200;
  for (const chain of chains) {
    let extents: FieldExtents = [{ stride: 1, low: 0, high: 0 }];
    const middle = 12;
    const masks = [middle, middle + 1].map((one) => {
      const mask: Mask = new Uint8Array(size);
      mask[one] = 1;
      return mask;
    });
    for (const change of chain) {
      const reach = {
        output_sizes: [size],
        input_sizes: [size],
        windows: [makeAxisWindow(change)],
      };
      const before: FieldExtents = extents;
      extents = operandExtents(reach, before) ?? [];
      for (const [k, mask] of masks.entries())
        masks[k] = mapMask(createMappings(reach).toInputs, mask);
    }
    const [own] = extents;
    assert.ok(own);
    for (const [k, mask] of masks.entries()) {
      const found = [...mask.keys()].filter((i) => mask[i] === 1);
      const start: number = (middle + k) * own.stride;
      const said: number[] = [start + own.low, start + own.high];
      assert.deepEqual([found[0], found.at(-1)], said, JSON.stringify(chain));
    }
  }
  const [a, b] = [[{ stride: 2, low: -1, high: 1 }], [{ stride: 2, low: 0, high: 4 }]];
  assert.deepEqual(unionExtents(a, b), [{ stride: 2, low: -1, high: 4 }]);
  assert.equal(unionExtents(a, [{ stride: 1, low: 0, high: 4 }]), null);
});
