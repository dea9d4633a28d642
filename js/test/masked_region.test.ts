import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldText, gapsText, maskedRegion, outline } from "../src/explain/masked_region.ts";

const picture = (...rows: string[]) =>
  maskedRegion(
    Uint8Array.from(rows.join(""), (one) => (one === "#" ? 1 : 0)),
    rows.length,
    rows[0]?.length ?? 0,
  );
const one = (low: number, high: number, stride = 1) => ({ low, high, stride });

test("an outline goes around holes, and around pixels that touch at a corner one by one", () => {
  assert.equal(outline(picture(".....", ".##..", "....."), 2, 3), "M3 2h6v2h-6v-2z");
  const ring = outline(picture("###", "#.#", "###"), 1, 1);
  assert.equal(ring.split("M").length - 1, 2);
  const corners = outline(picture("#.", ".#"), 1, 1);
  assert.equal(corners, "M0 0h1v1h-1v-1zM1 1h1v1h-1v-1z");
  assert.equal(outline(picture("..", ".."), 1, 1), "");
});

test("a field is told by theory, and by what of it lies inside", () => {
  const inside = picture("......", ".###..", ".###..", ".###..");
  assert.equal(
    fieldText(inside, "x", [one(-1, 1), one(-1, 1)]),
    "3×3, stride 1: y 1 to 3, x 1 to 3 of x’s 4×6",
  );
  const cut = picture("###...", "###...", "......", "......");
  assert.equal(
    fieldText(cut, "x", [one(-1, 1, 2), one(-1, 1, 2)]),
    "3×3, stride 2; 2×3 of it inside x’s 4×6: y 0 to 1, x 0 to 2",
  );
  assert.equal(
    fieldText(picture("##", "##"), "x", [one(-9, 9, 32), one(-9, 9, 16)]),
    "19×19, stride 32×16; all of x’s 2×2 lies inside it",
  );
  assert.equal(fieldText(picture("##", "##"), "x", null), "all of x");
  assert.equal(fieldText(picture("..", ".."), "x", null), "nothing of x");
  assert.equal(fieldText(picture("..#.", "...."), "x", null), "1×1 of x’s 2×4: y 0, x 2");
  assert.equal(fieldText(picture(".#.#.#"), "x", [one(0, 4)]), "5, stride 1: x 1 to 5 of x’s 6");
});

test("gaps are counted", () => {
  assert.equal(gapsText(picture("#.#", "...", "#.#")), "4 of these 9 pixels");
  assert.equal(gapsText(picture("##", "##")), "");
});
