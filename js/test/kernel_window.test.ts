import assert from "node:assert/strict";
import { test } from "node:test";
import { overlapCounts, overlapText } from "../src/explain/overlap_counts.ts";
import { slidingTaps, tapState, transposedTaps, windowText } from "../src/explain/window.ts";

const makeWindow = (kernel: number, stride: number, begin: number, dilation = 1) => ({
  kernel: [kernel, kernel],
  strides: [stride, stride],
  dilations: [dilation, dilation],
  pads_begin: [begin, begin],
  pads_end: [begin, begin],
});

test("a transposed convolution's phase has the same filter at the border as inside", () => {
  for (const [kernel, stride, begin, dilation] of [
    [4, 2, 1, 1],
    [3, 2, 1, 1],
    [5, 3, 0, 1],
    [3, 2, 0, 2],
    [2, 3, 0, 1],
  ] as const) {
    const size = 4;
    const length = (size - 1) * stride - 2 * begin + (kernel - 1) * dilation + 1;
    const filters = new Map<string, string>();
    for (let y = 0; y < length; y++) {
      const found = transposedTaps(
        makeWindow(kernel, stride, begin, dilation),
        [size, size],
        [0, 0, y, y],
      );
      assert.ok(found);
      const taps = found.phaseTaps.rows.map((line) => line.tap).join();
      const phase = found.phase.join();
      assert.equal(
        filters.get(phase) ?? taps,
        taps,
        `${kernel}, ${stride}: phase ${phase} at ${y}`,
      );
      filters.set(phase, taps);
      // Both pictures have the same taps in the map, from the same pixels.
      const inMap = (lines: typeof found.rows) =>
        lines
          .filter((line) => line.state === "input")
          .map(({ tap, inputIndex }) => [tap, inputIndex]);
      assert.deepEqual(inMap(found.phaseTaps.rows), inMap(found.rows));
    }
  }
});

test("taps of a phase's filter that lie outside the map are padding", () => {
  const found = transposedTaps(makeWindow(4, 2, 1), [3, 3], [0, 0, 0, 0]);
  assert.ok(found);
  const { rows, columns } = found.phaseTaps;
  assert.deepEqual(rows, [
    { tap: 3, inputIndex: -1, state: "padding" },
    { tap: 1, inputIndex: 0, state: "input" },
  ]);
  const states = rows.flatMap((row) => columns.map((column) => tapState(row, column)));
  assert.deepEqual(states, ["padding", "padding", "padding", "input"]);
});

test("rows and columns are told in the order in which a filter reads them", () => {
  const said = (mode: string | undefined, y: number, x: number) => {
    const lines = slidingTaps(makeWindow(3, 1, 1), [6, 6], [0, 0, y, x], mode);
    assert.ok(lines);
    return windowText(lines, false, mode);
  };
  assert.equal(
    said("reflect", 0, 5),
    "rows 1, 0, 1 (mirrored at the border), columns 4, 5, 4 (mirrored at the border)",
  );
  assert.equal(said("wrap", 0, 3), "rows 5, 0, 1 (wrapped around at the border), columns 2–4");
  assert.equal(said("edge", 3, 0), "rows 2–4, columns 0, 0, 1 (repeated at the border)");
  assert.equal(said(undefined, 0, 3), "rows 0–1 (1 outside), columns 2–4");
});

test("weights that reach a place are those of all inputs that stamp it", () => {
  for (const [kernel, stride, begin, dilation, extra] of [
    [4, 2, 1, 1, 0],
    [3, 2, 0, 1, 1],
    [5, 3, 1, 1, 0],
    [3, 2, 0, 2, 0],
    [2, 3, 0, 1, 0],
  ] as const) {
    const size = 5;
    const length = (size - 1) * stride - 2 * begin + (kernel - 1) * dilation + 1 + extra;
    const found = overlapCounts(
      makeWindow(kernel, stride, begin, dilation),
      [size, size],
      [length, length],
    );
    assert.ok(found);
    for (let at = 0; at < length; at++) {
      const lines = transposedTaps(
        makeWindow(kernel, stride, begin, dilation),
        [size, size],
        [0, 0, at, at],
      );
      const taps = lines?.rows.filter(({ state }) => state === "input").length;
      assert.deepEqual([found.rows[at], found.columns[at]], [taps, taps], `${kernel}: ${at}`);
    }
  }
  const counts = (kernel: number, stride: number) => {
    const found = overlapCounts(
      makeWindow(kernel, stride, 0),
      [9, 9],
      Array(2).fill(8 * stride + kernel),
    );
    return found === null ? "" : overlapText(found);
  };
  assert.equal(counts(4, 2), "4 everywhere except at the border: no checkerboard artifacts");
  assert.equal(counts(2, 2), "1 everywhere: no checkerboard artifacts");
  assert.equal(counts(3, 2), "4, 2 and 1 alternate: this causes checkerboard artifacts");
  assert.equal(counts(1, 2), "1 and 0 alternate: this causes checkerboard artifacts");
  assert.equal(overlapCounts(makeWindow(3, 2, 0), [2, 3, 4], [5, 7, 9]), null, "a volume");
});
