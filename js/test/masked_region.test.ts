import assert from "node:assert/strict";
import { test } from "node:test";
import {
  markedShareText,
  maskedRegion,
  outlinePath,
  receptiveFieldText,
} from "../src/explain/masked_region.ts";

const parseMask = (...rows: string[]) =>
  maskedRegion(
    Uint8Array.from(rows.join(""), (one) => (one === "#" ? 1 : 0)),
    rows.length,
    rows[0]?.length ?? 0,
  );
const makeRange = (low: number, high: number, stride = 1) => ({ low, high, stride });

test("an outline goes around holes, and around pixels that touch at a corner one by one", () => {
  assert.equal(outlinePath(parseMask(".....", ".##..", "....."), 2, 3), "M3 2h6v2h-6v-2z");
  const ring = outlinePath(parseMask("###", "#.#", "###"), 1, 1);
  assert.equal(ring.split("M").length - 1, 2);
  const corners = outlinePath(parseMask("#.", ".#"), 1, 1);
  assert.equal(corners, "M0 0h1v1h-1v-1zM1 1h1v1h-1v-1z");
  assert.equal(outlinePath(parseMask("..", ".."), 1, 1), "");
});

test("a field is told by theory, and by what of it lies inside", () => {
  const inside = parseMask("......", ".###..", ".###..", ".###..");
  assert.equal(
    receptiveFieldText(inside, "x", [makeRange(-1, 1), makeRange(-1, 1)]),
    "3×3, stride 1: y 1 to 3, x 1 to 3 of x’s 4×6",
  );
  const cut = parseMask("###...", "###...", "......", "......");
  assert.equal(
    receptiveFieldText(cut, "x", [makeRange(-1, 1, 2), makeRange(-1, 1, 2)]),
    "3×3, stride 2; 2×3 of it inside x’s 4×6: y 0 to 1, x 0 to 2",
  );
  assert.equal(
    receptiveFieldText(parseMask("##", "##"), "x", [makeRange(-9, 9, 32), makeRange(-9, 9, 16)]),
    "19×19, stride 32×16; all of x’s 2×2 lies inside it",
  );
  assert.equal(receptiveFieldText(parseMask("##", "##"), "x", null), "all of x");
  assert.equal(receptiveFieldText(parseMask("..", ".."), "x", null), "nothing of x");
  assert.equal(
    receptiveFieldText(parseMask("..#.", "...."), "x", null),
    "1×1 of x’s 2×4: y 0, x 2",
  );
  assert.equal(
    receptiveFieldText(parseMask(".#.#.#"), "x", [makeRange(0, 4)]),
    "5, stride 1: x 1 to 5 of x’s 6",
  );
});

test("gaps are counted", () => {
  assert.equal(markedShareText(parseMask("#.#", "...", "#.#")), "4 of these 9 pixels");
  assert.equal(markedShareText(parseMask("##", "##")), "");
});
