// Numbers that views ask of a session: asked once a run, for each example, channel and count by themselves.
import assert from "node:assert/strict";
import test from "node:test";
import { displayStyle, imageShapeText } from "../src/network/display_kind.ts";
import type { Session, Statistics, Summary } from "../src/plan/runtime.ts";
import type { LayerPair, PlanHeader, Value } from "../src/plan/schema.ts";
import { cosineSimilarities, valueRank } from "../src/views/channel_similarity.ts";
import { planHeader } from "./plan_files.ts";
import "./text_imports.ts";

const { createState } = await import("../src/state.ts");
const { FEATURES } = await import("../src/features/index.ts");
const { createRunQueries: createMeasures, isReadable } = await import(
  "../src/views/run_queries.ts"
);
const { layerDifference: changeOf, sharedLimits: sharedEnds } = await import(
  "../src/features/compare/views/layer_pairs.ts"
);
const { countClasses } = await import("../src/views/overlay/class_counts.ts");
const { activationBounds: boundsOf, flagOf } = await import("../src/views/channel_flags.ts");

/** A session that answers each question by its words, and a state that shows it. */
function recordingSession() {
  const asked: string[] = [];
  const answer =
    (what: string) =>
    async (...given: unknown[]) => {
      asked.push([what, ...given].join(" "));
      return undefined as unknown;
    };
  const plan = planHeader((one) => {
    const [value] = one.values;
    one.values.push({ ...value, key: "scores", shape: [2, 3], nchw: [2, 3, 1, 1] });
    value.readback.count = 16e6;
    one.values.push({ ...value, key: "large", readback: { ...value.readback, count: 16e6 + 1 } });
  });
  const session = {
    plan,
    sequence: 1,
    value: (key: string) => plan.values.find((value) => value.key === key),
    statistics: answer("statistics"),
    histogram: answer("histogram"),
    topk: answer("topk"),
    argmax: answer("argmax"),
    sample: async (key: string) => {
      asked.push(`sample ${key}`);
      return Float32Array.of(1, 5, 3, 9, 7, 8);
    },
  };
  const state = createState(FEATURES);
  state.plan.value = plan as PlanHeader;
  state.session.value = session as unknown as Session;
  return { session, state, measures: createMeasures(state), asked: () => asked.splice(0) };
}

test("each number is asked once a run, for each value, example, channel and count", async () => {
  const { session, measures, asked } = recordingSession();
  const all = () => [
    measures.statistics("x", 0),
    measures.statistics("x", 1),
    measures.statistics("scores", 0),
    measures.histogram("x", 0, { bins: 10 }),
    measures.histogram("x", 1, { bins: 10 }),
    measures.histogram("x", 0, { bins: 20 }),
    measures.histogram("x", 0, { bins: 10, channel: 2 }),
    measures.argmax("x", 0),
    measures.argmax("x", 1),
  ];
  await Promise.all([...all(), ...all()]);
  assert.deepEqual(asked(), [
    "statistics x 0",
    "statistics x 1",
    "statistics scores 0",
    "histogram x 10 0 ",
    "histogram x 10 1 ",
    "histogram x 20 0 ",
    "histogram x 10 0 2",
    "argmax x 0",
    "argmax x 1",
  ]);
  session.sequence += 1;
  await measures.statistics("x", 0);
  assert.deepEqual(asked(), ["statistics x 0"]);
});

test("another session's numbers are its own, though it has run as often", async () => {
  const { session, state, measures, asked } = recordingSession();
  await measures.statistics("x", 0);
  state.session.value = { ...session } as unknown as Session;
  await measures.statistics("x", 0);
  assert.deepEqual(asked(), ["statistics x 0", "statistics x 0"]);
  state.session.value = { ...session, sequence: 0 } as unknown as Session;
  assert.equal(await measures.statistics("x", 0), null);
  state.session.value = null;
  assert.equal(await measures.statistics("x", 0), null);
});

test("the largest scores are those of their example, where the device does not pick them", async () => {
  const { measures, asked } = recordingSession();
  const [first, second] = await Promise.all([
    measures.topk("scores", 0, 2),
    measures.topk("scores", 1, 2),
  ]);
  assert.deepEqual([first?.indices, first?.scores], [[1, 2], [5, 3]]); // biome-ignore format: pairs
  assert.deepEqual([second?.indices, second?.scores], [[0, 2], [9, 8]]); // biome-ignore format: pairs
  assert.deepEqual(asked(), ["topk scores 2 0", "topk scores 2 1", "sample scores"]);
});

test("a value of sixteen million numbers is read, and a larger one is not", async () => {
  const { measures, session, asked } = recordingSession();
  assert.ok(isReadable(session.value("x") as Value));
  assert.equal((await measures.read("x"))?.length, 6);
  assert.equal(await measures.read("large"), null);
  assert.equal(await measures.read("none"), null);
  assert.deepEqual(asked(), ["sample x"]);
});

test("a question that failed is asked again, and one that was cut short gives nothing", async () => {
  const { session, measures } = recordingSession();
  let name = "Error";
  session.statistics = async () => {
    throw Object.assign(new Error("no"), { name });
  };
  await assert.rejects(measures.statistics("x", 0));
  name = "ContextLostError";
  assert.equal(await measures.statistics("x", 0), null);
});

test("classes are counted by the first of the largest scores, and without places of NaN", () => {
  // Three channels of four places: the last place has a NaN.
  const scores = Float32Array.of(1, 0, 2, 9, 1, 5, 2, Number.NaN, 0, 5, 2, 1);
  assert.deepEqual(countClasses(scores, 3), [
    { classIndex: 0, count: 2 },
    { classIndex: 1, count: 1 },
  ]);
  assert.deepEqual(countClasses(Float32Array.of(2, 7, 2, Number.NaN), 1), [
    { classIndex: 2, count: 2 },
    { classIndex: 7, count: 1 },
  ]);
});

test("a channel is dead where all is zero, and saturated within a hundredth of an end", () => {
  const of = (min: number, max: number, zeroFraction = 0) =>
    ({ min, max, zeroFraction }) as Summary;
  assert.equal(flagOf(of(0, 0, 1), null), "dead");
  assert.equal(flagOf(of(0, 0, 0.999), null), null);
  assert.equal(flagOf(of(0, 0, 1), [0, 1]), "dead");
  assert.equal(flagOf(of(-1, -0.98), [-1, 1]), "sat");
  assert.equal(flagOf(of(-1, -0.9799), [-1, 1]), null);
  assert.equal(flagOf(of(0.98, 1), [-1, 1]), "sat");
  assert.equal(flagOf(of(0.9799, 1), [-1, 1]), null);
  assert.equal(boundsOf({ bounds: [0, null] } as never), null);
  assert.deepEqual(boundsOf({ bounds: [0, 6] } as never), [0, 6]);
  assert.equal(boundsOf(undefined), null);
});

test("a row of a comparison is that of its example", () => {
  const table = Float32Array.of(1, 2, 4, 0, 0, 0, 5, 6, 10, 7, 8, 0);
  const change = (row: number, example: number) =>
    changeOf(table, { row } as LayerPair, 2, example);
  assert.deepEqual(change(0, 0), { mean: 1, max: 2, relative: 0.25 });
  assert.deepEqual(change(1, 0), { mean: 0, max: 0, relative: 0 });
  assert.deepEqual(change(0, 1), { mean: 5, max: 6, relative: 0.5 });
  assert.equal(change(1, 1).relative, Number.POSITIVE_INFINITY);
});

test("two values share the range of both, of a channel or of the layer", () => {
  const of = (min: number, max: number, channels: readonly (readonly [number, number])[]) =>
    ({
      layer: { min, max },
      channels: channels.map(([low, high]) => ({ min: low, max: high })),
    }) as unknown as Statistics;
  const a = of(-1, 2, [[-1, 0], [1, 2]]); // biome-ignore format: pairs
  const b = of(0, 5, [[0, 0.5], [Number.NaN, Number.NaN]]); // biome-ignore format: pairs
  assert.deepEqual(sharedEnds(a, b, null), { low: -1, high: 5 });
  assert.deepEqual(sharedEnds(a, b, 0), { low: -1, high: 0.5 });
  assert.deepEqual(sharedEnds(a, b, 1), { low: 1, high: 2 });
  const none = of(Number.NaN, Number.NaN, []);
  assert.equal(sharedEnds(none, none, null), null);
});

test("maps are as alike as they point into one direction, and ranks are within a map", () => {
  const maps = Float32Array.of(1, 0, 2, 0, 0, 3, -1, 0, 0, 0);
  const found = cosineSimilarities(maps, 5, 0);
  assert.deepEqual(found.slice(0, 4), [1, 1, 0, -1]);
  assert.ok(Number.isNaN(found[4] ?? 0));
  assert.equal(valueRank(Float32Array.of(9, 1, 2, 2), 1, 3, 2), 1);
  assert.equal(valueRank(Float32Array.of(9, 1, 2, 2), 1, 3, 1), 3);
});

test("colours of their own have inputs and outputs of one or three channels alone", () => {
  const [base] = planHeader().values as [Value];
  const name = (nchw: readonly number[], more: Partial<Value> = {}) =>
    displayStyle({ ...base, shape: nchw, nchw, ...more } as unknown as Value).name;
  assert.equal(name([1, 3, 2, 3]), "rgb");
  assert.equal(name([1, 1, 2, 3]), "grey");
  for (const channels of [2, 4]) assert.equal(name([1, channels, 2, 3]), "maps");
  assert.equal(name([1, 3, 1, 3]), "maps", "one row is no picture");
  assert.equal(name([1, 3, 2, 3], { kind: "layer" }), "maps");
  assert.equal(name([1, 3, 2, 3], { shape: [3, 2, 3] }), "maps");
  assert.equal(name([2, 1, 1, 1]), "number");
  assert.equal(name([1, 2, 1, 1]), "bars");
  assert.equal(name([1, 5, 2, 3], { display_kind: "classes", kind: "output" }), "classes");
  assert.equal(name([1, 5, 2, 3], { display_kind: "classes", kind: "layer" }), "maps");
  assert.equal(imageShapeText({ ...base, shape: [2, 4, 5], nchw: [2, 4, 1, 5] } as never), "4×5");
  assert.equal(imageShapeText({ ...base, shape: [4, 5], nchw: [2, 4, 1, 5] } as never), "4×5");
  assert.equal(imageShapeText({ ...base, shape: [1], nchw: [1, 1, 1, 1] } as never), "1");
  assert.equal(imageShapeText({ ...base, shape: [], nchw: [1, 1, 1, 1] } as never), "scalar");
});
