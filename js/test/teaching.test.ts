// A teaching in a page without Python: what the page has then is all there is; and the head that both find.
import assert from "node:assert/strict";
import test from "node:test";
import type { Feeder } from "../src/features/sources/state.ts";
import {
  HELD_OUT_EVERY,
  MAX_CLASSES,
  MAX_EXAMPLES,
  type TeachingRecord,
} from "../src/features/teaching/records.ts";
import type { Edit } from "../src/plan/edits.ts";
import type { Session } from "../src/plan/runtime.ts";
import { PLAIN_EDIT } from "./plain_edit.ts";
import "./text_imports.ts";

const { beforeEditsKey: beforeKey } = await import("../src/plan/derived_values.ts");
const { createState } = await import("../src/state.ts");
const { FEATURES } = await import("../src/features/index.ts");
const {
  applyChange: changed,
  makeChange: changeOf,
  EMPTY_LESSON: NOTHING,
} = await import("../src/features/teaching/lesson_changes.ts");
const { parseLesson: savedIn, serializeLesson: teachingFile } = await import(
  "../src/features/teaching/lesson_file.ts"
);
const { heldOutMask: heldOut, probabilities } = await import("../src/features/teaching/head.ts");
const { trainHead: learn } = await import("../src/features/teaching/head_training.ts");
const { pooledFeatures: featuresOf } = await import(
  "../src/features/teaching/feature_extraction.ts"
);
const { lessonStoreOf: teachingOf } = await import("../src/features/teaching/lesson_store.ts");

const SHAPE = [3, 2, 1] as const;
const FEATURE_COUNT = 2;
const NETWORK = { weights_hash: "w", edits: "" };
const TEACHING_RECORD: TeachingRecord = {
  id: "t",
  layer: "conv",
  input: "x",
  shape: SHAPE,
  feature_count: FEATURE_COUNT,
  averaged: false,
  weights_hash: "w",
  sequence: 0,
  acknowledged: {},
};

const bend: Edit = { ...PLAIN_EDIT, layer: "conv", name: "b", transform: "invert" };

/** Example k of a class: features on its side of 0, and a picture of numbers that say which it is. */
const makeSample = (classIndex: number, k: number) => ({
  features: Float32Array.of(classIndex + 0.01 * k, -classIndex - 0.02 * k),
  picture: Uint8Array.of(classIndex, k % 256, 2, 3, 4, 255),
});
const makeExamples = (counts: readonly number[], featureVersion = NETWORK) =>
  counts.flatMap((count, classIndex) =>
    Array.from({ length: count }, (_, k) => ({
      classIndex,
      featureVersion,
      sample: makeSample(classIndex, k),
    })),
  );

/** A page without Python that has so many examples of each class. */
async function createTeachingPage(...counts: number[]) {
  const state = createState(FEATURES);
  const listing = {
    sequence: 0,
    acknowledged: {},
    classes: [],
    examples: [],
    versions: [],
    head: null,
  };
  const feeder: Partial<Feeder> = {
    pageId: "page",
    blob: async () => new TextEncoder().encode(JSON.stringify(listing)),
  };
  state.feeder.value = feeder as Feeder;
  state.teaching.value = TEACHING_RECORD;
  const teaching = teachingOf(state);
  teaching.connect();
  await new Promise((done) => setTimeout(done)); // what the page came with
  const classes = counts.map((_, k) => `class ${k}`);
  teaching.loadLesson({ classes, examples: makeExamples(counts), head: null });
  const ids = () => teaching.lesson.peek().classes.map(({ id }) => id);
  const count = () => teaching.lesson.peek().examples.length;
  return { state, teaching, ids, count };
}

test("a class that is removed takes the head along that knows it, and its examples", async () => {
  const { teaching, ids, count } = await createTeachingPage(6, 5, 5);
  await teaching.trainHead();
  assert.deepEqual(teaching.lesson.peek().head?.classes, ids());
  assert.equal(teaching.linearHead.peek()?.bias.length, 3);
  assert.equal(teaching.isHeadOutdated, false);
  teaching.removeClass(ids()[2] ?? "");
  assert.equal(teaching.lesson.peek().head, null);
  assert.equal(teaching.linearHead.peek(), null);
  assert.equal(count(), 11);
  await teaching.trainHead();
  assert.equal(teaching.linearHead.peek()?.bias.length, 2);
  teaching.undelete();
  assert.equal(count(), 16);
  assert.equal(teaching.isHeadOutdated, true, "the head knows two of three classes");
  assert.notEqual(teaching.lesson.peek().head, null);
});

test("a class that is added behind the head's training can go without it", async () => {
  const { teaching, ids } = await createTeachingPage(5, 5);
  await teaching.trainHead();
  teaching.addClass("later");
  assert.equal(teaching.isTrainable, false, "it has no example");
  const { head } = teaching.lesson.peek();
  teaching.removeClass(ids()[2] ?? "");
  assert.equal(teaching.lesson.peek().head, head);
  assert.notEqual(teaching.linearHead.peek(), null);
  assert.equal(teaching.isHeadOutdated, false);
});

test("an example that is removed and brought back makes the head outdated and current again", async () => {
  const { teaching, count } = await createTeachingPage(1, 2);
  await teaching.trainHead();
  const last = teaching.lesson.peek().examples.at(-1);
  teaching.removeExample(last?.id ?? "");
  assert.equal(count(), 2);
  assert.equal(teaching.isHeadOutdated, true);
  assert.equal(teaching.deletionText.peek(), "an example of “class 1”");
  teaching.undelete();
  assert.equal(teaching.isHeadOutdated, false);
  assert.equal(teaching.deletionText.peek(), "");
  assert.deepEqual(teaching.samples.peek().get(last?.id ?? "")?.picture, makeSample(1, 1).picture);
  teaching.undelete(); // nothing more
  assert.equal(count(), 3);
});

test("a class is renamed with its examples, and another one is made", async () => {
  const { teaching, ids, count } = await createTeachingPage(1, 1);
  teaching.renameClass(ids()[0] ?? "", "cup");
  teaching.addClass("third");
  assert.deepEqual(
    teaching.lesson.peek().classes.map(({ name }) => name),
    ["cup", "class 1", "third"],
  );
  assert.equal(count(), 2);
});

test("what was removed comes back where there is room alone", async () => {
  const { teaching, ids, count } = await createTeachingPage(2, MAX_EXAMPLES - 2);
  const added = (key: string) => teaching.loadLesson({ classes: [key], examples: [], head: null });
  teaching.removeClass(ids()[0] ?? "");
  teaching.undelete();
  assert.equal(count(), MAX_EXAMPLES);
  assert.equal(teaching.error.peek(), "");
  added("none");
  assert.equal(count(), 0);

  const full = await createTeachingPage(...Array.from({ length: MAX_CLASSES }, () => 1));
  full.teaching.removeClass(full.ids()[0] ?? "");
  full.teaching.addClass("another");
  full.teaching.undelete();
  assert.equal(full.ids().length, MAX_CLASSES);
  assert.match(full.teaching.error.peek(), /limit is 20 classes and 2000 examples/);
  full.teaching.removeClass(full.ids().at(-1) ?? "");
  assert.equal(full.ids().length, MAX_CLASSES - 1);
});

test("examples of other weights or bends are stale, however the bends are written", async () => {
  const { state, teaching } = await createTeachingPage(2, 1);
  assert.equal(teaching.staleExamples().length, 0);
  state.teaching.value = { ...TEACHING_RECORD, weights_hash: "other" };
  assert.equal(teaching.staleExamples().length, 3);
  state.teaching.value = TEACHING_RECORD;
  state.currentEdits.value = { edits: [{ ...bend, enabled: false }], weights: 0 };
  assert.equal(teaching.staleExamples().length, 0, "it does not act");
  state.currentEdits.value = { edits: [bend], weights: 0 };
  assert.equal(teaching.staleExamples().length, 3);
  const spaced = { weights_hash: "w", edits: JSON.stringify([bend], null, 1) };
  teaching.loadLesson({ classes: ["a"], examples: makeExamples([1], spaced), head: null });
  assert.equal(teaching.staleExamples().length, 0);
});

/** A session whose last run had this input and value, and what says how often it has run. */
function createFeatureSession(input: readonly number[], value: readonly number[]) {
  const one = {
    sequence: 1,
    read: async (key: string) =>
      Float32Array.from(
        key === beforeKey(TEACHING_RECORD.input)
          ? input
          : key === TEACHING_RECORD.layer
            ? value
            : [],
      ),
  };
  return one as typeof one & Session;
}

test("what enters becomes an example once a run, its picture in bytes", async () => {
  const { state, teaching, ids, count } = await createTeachingPage(0);
  const one = createFeatureSession([0, 1, 0.5, -1, 2, 1 / 255], [7, -8]);
  const [of = ""] = ids();
  state.session.value = one;
  assert.equal(await teaching.collectExample(of, true), true);
  const [sample] = [...teaching.samples.peek().values()];
  assert.deepEqual(sample, {
    features: Float32Array.of(7, -8),
    picture: Uint8Array.of(0, 255, 128, 0, 255, 1),
  });
  assert.equal(await teaching.collectExample(of, false), false, "there was no other run");
  assert.equal(
    await teaching.collectExample(of, true),
    true,
    "the first of another press is taken",
  );
  one.sequence += 1;
  assert.equal(await teaching.collectExample(of, false), true);
  const next = createFeatureSession([0, 0, 0, 0, 0, 0], [0, 0]);
  next.sequence = one.sequence;
  state.session.value = next;
  assert.equal(await teaching.collectExample(of, false), true, "a run of another network");
  assert.equal(count(), 4);
  next.sequence = 0;
  assert.equal(await teaching.collectExample(of, true), false, "nothing has run");
  state.session.value = createFeatureSession([], []);
  state.areEditsBypassed.value = true;
  state.currentEdits.value = { edits: [bend], weights: 0 };
  assert.equal(await teaching.collectExample(of, true), false, "shown without its bends");
});

test("a head is outdated where an example was replaced by another of its class", async () => {
  const { state, teaching, ids, count } = await createTeachingPage(2, 2);
  await teaching.trainHead();
  assert.equal(teaching.isHeadOutdated, false);
  teaching.removeExample(teaching.lesson.peek().examples[0]?.id ?? "");
  state.session.value = createFeatureSession([0, 0, 0, 0, 0, 0], [7, -8]);
  assert.equal(await teaching.collectExample(ids()[0] ?? "", true), true);
  assert.equal(count(), 4);
  assert.equal(teaching.isHeadOutdated, true);
});

test("the last example that there is room for is taken, and the next is not", async () => {
  const { state, teaching, ids, count } = await createTeachingPage(MAX_EXAMPLES - 1);
  state.session.value = createFeatureSession([0, 0, 0, 0, 0, 0], [0, 0]);
  const [of = ""] = ids();
  assert.equal(await teaching.collectExample(of, true), true);
  assert.equal(teaching.error.peek(), "");
  assert.equal(await teaching.collectExample(of, true), false);
  assert.equal(count(), MAX_EXAMPLES);
  assert.match(teaching.error.peek(), /has 2000 examples, which is the limit/);
});

test("of several picture files as many become examples as there is room for", async () => {
  const { state, teaching, ids, count } = await createTeachingPage(MAX_EXAMPLES - 2);
  let closed = 0;
  Object.assign(globalThis, {
    createImageBitmap: async () => ({
      close: () => {
        closed += 1;
      },
    }),
  });
  const twin = {
    ...createFeatureSession([0, 0, 0, 0, 0, 0], [0, 0]),
    setEdits: async () => undefined,
    feed: () => undefined,
    run: async () => undefined,
    dispose: () => undefined,
  };
  state.forkSession.value = async () => twin as unknown as Session;
  const files = Array.from({ length: 5 }, () => new Blob());
  await teaching.addPictures(ids()[0] ?? "", files);
  assert.equal(count(), MAX_EXAMPLES);
  assert.match(teaching.error.peek(), /has 2000 examples, which is the limit/);
  assert.equal(closed, 2);
  assert.equal(teaching.busyStatus.peek(), null);
});

test("a head's probabilities are by class, of what the last run has", async () => {
  const { state, teaching, ids } = await createTeachingPage(3, 3);
  assert.equal(await teaching.classify(), null);
  await teaching.trainHead();
  state.session.value = createFeatureSession([], [1, -1]);
  const found = await teaching.classify();
  assert.deepEqual([...(found?.keys() ?? [])], ids());
  assert.ok((found?.get(ids()[1] ?? "") ?? 0) > 0.5);
});

test("another teaching begins with nothing", async () => {
  const { state, teaching, count } = await createTeachingPage(2, 2);
  await teaching.trainHead();
  state.teaching.value = { ...TEACHING_RECORD, id: "another" };
  assert.equal(count(), 0);
  assert.deepEqual([teaching.linearHead.peek(), teaching.samples.peek().size], [null, 0]);
  assert.equal(teaching.isTrainable, false);
});

test("a change of what is not there changes nothing", () => {
  const one = changed(NOTHING, changeOf({ kind: "class", id: "a", text: "A" }));
  const example = { kind: "example", id: "e", class_id: "a", version: NETWORK } as const;
  const both = changed(one, changeOf(example));
  assert.equal(both.examples.length, 1);
  for (const change of [
    changeOf({ ...example, class_id: "b" }),
    changeOf({ ...example, version: null }),
    changeOf({ kind: "features", id: "e" }),
    changeOf({ kind: "forget", id: "f" }),
    changeOf({ kind: "remove", id: "b" }),
  ])
    assert.deepEqual(changed(both, change), both);
  const other = { weights_hash: "v", edits: "" };
  const again = changed(both, changeOf({ kind: "features", id: "e", version: other }));
  assert.deepEqual(again.examples, [{ id: "e", classId: "a", version: other }]);
});

test("a file gives back what was saved: pictures, features, networks and the head", async () => {
  const { teaching } = await createTeachingPage(5, 2);
  await teaching.trainHead();
  const [taught, linear] = [teaching.lesson.peek(), teaching.linearHead.peek()];
  const file = teachingFile(TEACHING_RECORD, taught, teaching.samples.peek(), linear);
  const saved = savedIn(TEACHING_RECORD, file);
  assert.deepEqual(saved.classes, ["class 0", "class 1"]);
  assert.deepEqual(saved.examples, makeExamples([5, 2]));
  assert.deepEqual(saved.head?.linear, linear);
  assert.deepEqual(saved.head?.classes, [0, 1]);
  const again = await createTeachingPage();
  again.teaching.loadLesson(saved);
  assert.deepEqual(again.teaching.linearHead.peek(), linear);
  assert.equal(again.teaching.lesson.peek().head?.count, 7);
  assert.equal(again.teaching.isHeadOutdated, false);
});

test("a file gives each example the weights and bends of its own features", async () => {
  const networks = [
    NETWORK,
    { weights_hash: "w", edits: JSON.stringify([bend]) },
    { weights_hash: "other", edits: "" },
  ];
  const { teaching } = await createTeachingPage();
  const examples = networks.flatMap((network) => makeExamples([1, 1], network));
  teaching.loadLesson({ classes: ["a", "b"], examples, head: null });
  const file = teachingFile(TEACHING_RECORD, teaching.lesson.peek(), teaching.samples.peek(), null);
  assert.deepEqual(savedIn(TEACHING_RECORD, file).examples, examples);
});

test("a file with more examples or classes than are possible is refused", async () => {
  const fileOf = async (counts: readonly number[]) => {
    const { teaching } = await createTeachingPage(...counts);
    return teachingFile(TEACHING_RECORD, teaching.lesson.peek(), teaching.samples.peek(), null);
  };
  const full = await fileOf([MAX_EXAMPLES - 1, 1]);
  assert.equal(savedIn(TEACHING_RECORD, full).examples.length, MAX_EXAMPLES);
  const over = await fileOf([MAX_EXAMPLES, 1]);
  assert.throws(() => savedIn(TEACHING_RECORD, over), /2001 examples; the limit is 2000/);
  const classes = (count: number) => fileOf(Array.from({ length: count }, () => 1));
  assert.equal(savedIn(TEACHING_RECORD, await classes(MAX_CLASSES)).classes.length, MAX_CLASSES);
  const many = await classes(MAX_CLASSES + 1);
  assert.throws(() => savedIn(TEACHING_RECORD, many), /21 classes; the limit is 20/);
});

test("a file of other pictures or features is refused", async () => {
  const { teaching } = await createTeachingPage(2, 2);
  const file = teachingFile(TEACHING_RECORD, teaching.lesson.peek(), teaching.samples.peek(), null);
  assert.throws(
    () => savedIn({ ...TEACHING_RECORD, shape: [3, 1, 2] }, file),
    /pictures are 4×2×1×3/,
  );
  assert.throws(
    () => savedIn({ ...TEACHING_RECORD, feature_count: 3 }, file),
    /don’t have the 3 features of conv/,
  );
  assert.throws(() => savedIn(TEACHING_RECORD, new Uint8Array(9)), /not an nbglcnn lesson file/);
});

test("the last fifth of each class is held out, and none where a class has too few", () => {
  const labels = (counts: readonly number[]) =>
    counts.flatMap((count, k) => Array.from({ length: count }, () => k));
  const held = (...counts: number[]) =>
    heldOut(labels(counts)).flatMap((one, k) => (one ? [k] : []));
  assert.deepEqual(held(HELD_OUT_EVERY, HELD_OUT_EVERY), [4, 9]);
  assert.deepEqual(held(HELD_OUT_EVERY, 2 * HELD_OUT_EVERY), [4, 13, 14]);
  assert.deepEqual(held(HELD_OUT_EVERY, 2 * HELD_OUT_EVERY - 1), [4, 13]);
  assert.deepEqual(held(2 * HELD_OUT_EVERY, HELD_OUT_EVERY - 1), []);
});

test("a head counts what it knows of all, and of those held out by another head", async () => {
  const of = (counts: readonly number[]) => {
    const all = makeExamples(counts);
    const features = all.map(({ sample }) => sample.features);
    return [features, all.map((one) => one.classIndex)] as const;
  };
  const few = await learn(...of([4, 6]), 2, () => true);
  assert.deepEqual([few.correctCount, few.heldOutCorrectCount, few.heldOutCount], [10, 0, 0]);
  const many = await learn(...of([5, 11]), 2, () => true);
  assert.deepEqual([many.correctCount, many.heldOutCorrectCount, many.heldOutCount], [16, 3, 3]);
  const [share] = probabilities(many.linearHead, makeSample(0, 0).features);
  assert.ok((share ?? 0) > 0.5);
  await assert.rejects(learn(...of([5, 5]), 2, () => false));
});

test("features are the cut's value, or its means over height and width, of each channel", () => {
  const value = Float32Array.of(1, 2, 3, 4, 50, 60, 70, 80);
  assert.deepEqual(
    featuresOf({ ...TEACHING_RECORD, averaged: true }, value),
    Float32Array.of(2.5, 65),
  );
  const own = featuresOf(TEACHING_RECORD, value);
  assert.deepEqual(own, value);
  assert.notEqual(own.buffer, value.buffer, "a copy, which the next read leaves as it is");
});
