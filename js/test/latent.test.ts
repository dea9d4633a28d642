import assert from "node:assert/strict";
import test from "node:test";
import {
  codeAt,
  itemLabel,
  nearestItems,
  nearestText,
  unpackCodes,
} from "../src/features/latent/views/latent_codes.ts";
import {
  type AxisChoice,
  availableAxisKinds,
  cellAtPoint,
  cellCenter,
  codeAtPoint,
  distanceToPlane,
  GRID_CELLS,
  makePlane,
  projectCode,
  sliderRange,
} from "../src/features/latent/views/latent_plane.ts";
import { dot, norm } from "../src/features/latent/views/vector_math.ts";
import { makeSource } from "../src/features/sources/local_sources.ts";
import "./text_imports.ts";

const { sourceAsPython: pythonOf } = await import("../src/features/sources/views/source_text.ts");

/** Four codes of three numbers, whose directions are the first two axes. */
function packedCodes(change: Record<string, unknown> = {}): Uint8Array<ArrayBuffer> {
  const told = {
    items: [0, 3, 6, 9],
    total: 12,
    numbers: 3,
    deviations: [2, 1],
    explained: [0.8, 0.2],
    picture: [1, 2, 1],
    ...change,
  };
  let text = JSON.stringify(told);
  text += " ".repeat((4 - (text.length % 4)) % 4);
  const floats = [
    ...[1, 1, 1, 2, 1, 0, 1, 0, 0, 0, 1, 0],
    ...[-1, 1, 1, 3, 1, 1, 1, 0, 1, 1, 2, 1],
  ];
  const bytes = new Uint8Array(4 + text.length + 4 * floats.length + 8);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, text.length, true);
  bytes.set(new TextEncoder().encode(text), 4);
  for (const [k, one] of floats.entries()) view.setFloat32(4 + text.length + 4 * k, one, true);
  bytes.set([0, 10, 20, 30, 40, 50, 60, 70], bytes.length - 8);
  return bytes;
}

const codes = unpackCodes(packedCodes(), [0, 1, 1, -1], ["bag", "boot"]);
const axisChoice = (change: Partial<AxisChoice>): AxisChoice => ({
  axisKind: "pca",
  units: [0, 1],
  pictures: [0, 1],
  ...change,
});
const assertClose = (a: ArrayLike<number>, b: ArrayLike<number>): void => {
  assert.equal(a.length, b.length);
  for (let k = 0; k < a.length; k++) assert.ok(Math.abs((a[k] ?? 0) - (b[k] ?? 0)) < 1e-5);
};

test("codes come as Python packed them, and damaged ones are refused", () => {
  assert.deepEqual([...codeAt(codes, 1)], [3, 1, 1]);
  assert.deepEqual([...codes.std], [2, 1, 0]);
  assert.deepEqual([...codes.pictures], [0, 10, 20, 30, 40, 50, 60, 70]);
  assert.deepEqual([itemLabel(codes, 2), itemLabel(codes, 3)], ["boot", ""]);
  const short = packedCodes().subarray(0, 90) as Uint8Array<ArrayBuffer>;
  for (const damaged of [
    short,
    packedCodes({ numbers: 4 }),
    packedCodes({ items: 1 }),
    new Uint8Array(2),
  ]) {
    assert.throws(() => unpackCodes(damaged as Uint8Array<ArrayBuffer>), /damaged|JSON/);
  }
  assert.deepEqual(unpackCodes(packedCodes(), [1], "no").labels, []);
});

test("the nearest codes are named by their commonest labels", () => {
  assert.deepEqual(nearestItems(codes, [2.9, 1, 1], 2), [1, 2]);
  assert.equal(nearestText(codes, [3, 1, 1]), "near boot and bag");
  assert.equal(nearestText(unpackCodes(packedCodes()), [3, 1, 1]), "near item 3");
  assert.equal(nearestText(null, [3, 1, 1]), "");
});

test("a point of a plane is a code, and the code that point", () => {
  for (const change of [
    {},
    { axisKind: "units", units: [2, 0] },
    { axisKind: "between", pictures: [0, 3] },
    { axisKind: "between", pictures: [2, 2] },
    { axisKind: "between", pictures: [0, 1] }, // along the first direction
  ] as Partial<AxisChoice>[]) {
    const plane = makePlane(axisChoice(change), codes, [0.5, -1, 2]);
    assert.ok(Math.abs(dot(plane.xAxis.vector, plane.yAxis.vector)) < 1e-9);
    const code = codeAtPoint(plane, [0.3, -0.4]);
    assert.ok(distanceToPlane(plane, code) < 1e-6);
    const [a, b] = projectCode(plane, code);
    if (norm(plane.xAxis.vector) > 0) assert.ok(Math.abs(a - 0.3) < 1e-5);
    assert.ok(Math.abs(b + 0.4) < 1e-5);
    assert.ok(plane.xAxis.low < plane.xAxis.high && plane.yAxis.low < plane.yAxis.high);
  }
});

test("planes stand where their axes say", () => {
  const pca = makePlane(axisChoice({}), codes, [0, 0, 0]);
  assertClose(codeAtPoint(pca, [0, 0]), codes.mean);
  assertClose(codeAtPoint(pca, [1, 2]), [2, 3, 1]);
  assert.ok(pca.xAxis.low <= -5 && pca.xAxis.high >= 5, "2.5 deviations are shown at least");
  const units = makePlane(axisChoice({ axisKind: "units", units: [0, 2] }), codes, [7, 8, 9]);
  assertClose(codeAtPoint(units, [1, 2]), [1, 8, 2]);
  assert.notEqual(
    units.name,
    makePlane(axisChoice({ axisKind: "units", units: [0, 2] }), codes, [7, 7, 9]).name,
  );
  assert.equal(
    units.name,
    makePlane(axisChoice({ axisKind: "units", units: [0, 2] }), codes, [1, 8, 2]).name,
  );
  const between = makePlane(
    axisChoice({ axisKind: "between", pictures: [0, 3] }),
    codes,
    [0, 0, 0],
  );
  assertClose(codeAtPoint(between, [0, 0]), codeAt(codes, 0));
  assertClose(codeAtPoint(between, [1, 0]), codeAt(codes, 3));
});

test("without data there are units, and sliders around the code", () => {
  assert.deepEqual(availableAxisKinds(null), ["units"]);
  const plane = makePlane(axisChoice({ axisKind: "units" }), null, [0, -5, 1]);
  assertClose(codeAtPoint(plane, [0.5, 0.25]), [0.5, 0.25, 1]);
  assert.ok(plane.yAxis.low <= -5 && plane.xAxis.high >= 3);
  assert.deepEqual(sliderRange(null, 1, -5), [-5, 5]);
  assert.deepEqual(sliderRange(codes, 0, 9), [-5, 9]);
  assert.deepEqual(sliderRange(codes, 2, 0), [-2, 4]);
});

test("a cell's middle is in that cell, and nothing beside the grid is in any", () => {
  const plane = makePlane(axisChoice({}), codes, [0, 0, 0]);
  for (let row = 0; row < GRID_CELLS; row++) {
    for (let column = 0; column < GRID_CELLS; column++) {
      assert.deepEqual(cellAtPoint(plane, cellCenter(plane, column, row)), [column, row]);
    }
  }
  assert.deepEqual(cellAtPoint(plane, [plane.xAxis.low, plane.yAxis.high - 1e-9]), [0, 0]);
  assert.equal(cellAtPoint(plane, [plane.xAxis.high + 1, 0]), null);
});

test("the line of Python names nothing that Python doesn't have", () => {
  const set = makeSource("images", "input", { data: "d", index: 8, rate: 2 });
  assert.equal(pythonOf(set, false), "viewer.source = viewer.source.at(8)");
  assert.equal(
    pythonOf({ ...set, folder: "pics", playing: true }, true),
    'viewer.source = nbglcnn.Images("pics", index=8, playing=True, rate=2, input="input")',
  );
  const latent = makeSource("latent", "encoder.6", { code: [Math.fround(0.1), -0, -2] });
  const cut = 'viewer.source = nbglcnn.Latent("encoder.6"';
  assert.equal(pythonOf(latent, false), `${cut}, code=[0.1, 0, -2])`);
  assert.equal(
    pythonOf({ ...latent, data: "d", folder: "pics" }, false),
    `${cut}, data="pics", code=[0.1, 0, -2])`,
  );
  // With its data, labels and classes, which are here.
  const here = "viewer.source = viewer.source.with_code([0.1, 0, -2])";
  assert.equal(pythonOf({ ...latent, data: "d" }, false), here);
  const long = { ...latent, code: Array<number>(100).fill(1) };
  assert.equal(pythonOf(long, false), `${cut})`);
  assert.equal(pythonOf({ ...long, data: "d" }, false), "");
});
