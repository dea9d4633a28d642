// Ticks on the curve of a page that trains without Python, for what its reader bends meanwhile.
import assert from "node:assert/strict";
import test from "node:test";
import { addEditMarks } from "../src/features/training/edit_marks.ts";
import { type EditMark, MARK_MERGE_STEPS, MAX_MARKS } from "../src/features/training/records.ts";
import type { Edit } from "../src/plan/edits.ts";

const makeEdit = (name: string, more: Partial<Edit> = {}): Edit =>
  ({
    layer: "conv",
    name,
    transform: "blur",
    parameters: [1],
    enabled: true,
    array_hash: "",
    ...more,
  }) as Edit;
const markTexts = (marks: readonly EditMark[]): string[] =>
  marks.map(({ step, text }) => `${step} ${text}`);

test("a bend that comes, goes, is switched or changed is marked", () => {
  const [one, off, other] = [
    makeEdit("a"),
    makeEdit("a", { enabled: false }),
    makeEdit("a", { parameters: [2] }),
  ];
  const mark = (before: Edit[], now: Edit[]) => markTexts(addEditMarks([], before, now, 7));
  assert.deepEqual(mark([], [one]), ["7 conv: blur"]);
  assert.deepEqual(mark([one], []), ["7 conv: blur removed"]);
  assert.deepEqual(mark([one], [off]), ["7 conv: blur off"]);
  assert.deepEqual(mark([off], [one]), ["7 conv: blur on"]);
  assert.deepEqual(mark([one], [other]), ["7 conv: blur changed"]);
  assert.deepEqual(mark([one], [makeEdit("a")]), [], "the same, made again");
  assert.deepEqual(
    mark([], [makeEdit("a", { array_hash: "h" })]),
    [],
    "an array is of what is shown",
  );
  const none: EditMark[] = [];
  assert.equal(addEditMarks(none, [one], [one], 7), none);
});

test("changes of one kind within twenty steps are one mark", () => {
  let marks: readonly EditMark[] = [];
  const change = (step: number, k: number) => {
    const at = (number: number) => [makeEdit("a", { parameters: [number] })];
    marks = addEditMarks(marks, at(k), at(k + 1), step);
  };
  change(10, 0);
  change(10 + MARK_MERGE_STEPS - 1, 1);
  assert.deepEqual(markTexts(marks), ["10 conv: blur changed"]);
  change(10 + MARK_MERGE_STEPS, 2);
  assert.equal(marks.length, 2);
  marks = addEditMarks(marks, [], [makeEdit("b")], 10 + MARK_MERGE_STEPS);
  change(10 + MARK_MERGE_STEPS, 3);
  assert.equal(marks.length, 4, "something else came between");
});

test("of more than a hundred marks the first go", () => {
  let marks: readonly EditMark[] = [];
  for (let k = 0; k <= MAX_MARKS; k++)
    marks = addEditMarks(marks, [], [makeEdit("a", { layer: `layer ${k}` })], k);
  assert.equal(marks.length, MAX_MARKS);
  assert.deepEqual([marks[0]?.step, marks.at(-1)?.step], [1, MAX_MARKS]);
});
