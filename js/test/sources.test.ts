// Sources in a page: blocks of a data set, the numbers of an item, codes of a latent, and what Python hears of.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { InputSlot } from "../src/features/sources/input_slot.ts";
import type { DrawingRecord, ImagesRecord, WebcamRecord } from "../src/features/sources/records.ts";
import type { Feeder, Pen, SourceControls } from "../src/features/sources/state.ts";
import type { Input } from "../src/plan/schema.ts";
import "./text_imports.ts";

const { createState } = await import("../src/state.ts");
const { FEATURES } = await import("../src/features/index.ts");
const { createBlockCache: createBlocks } = await import("../src/features/sources/block_cache.ts");
const { downsample: averaged, drawing } = await import("../src/features/sources/drawing.ts");
const { itemValues: numbersOf } = await import("../src/features/sources/images.ts");
const { startFrameLoop: loop } = await import("../src/features/sources/frame_loop.ts");
const { channelsAndSize: sidesOf } = await import("../src/pictures/resize.ts");
const { repeatPerExample: forAll } = await import("../src/features/sources/input_slot.ts");
const { makeSource: sourceOf } = await import("../src/features/sources/local_sources.ts");
const { runSources } = await import("../src/features/sources/source_runner.ts");
const { argmax: likeliest } = await import("../src/features/sources/misprediction_search.ts");
const { nextItem, permute: placeOf } = await import("../src/features/sources/shuffle.ts");
const { createStatusReporter: createTelling } = await import(
  "../src/features/sources/status_reporter.ts"
);
const { webcam } = await import("../src/features/sources/webcam.ts");
const { setLatentCode: moveTo } = await import("../src/features/latent/state.ts");
const { throttle: spaced, decodeStringList: textsOf } = await import(
  "../src/comm/message_codec.ts"
);

const RETRY_MS = 5_000;
const MAX_BYTES = 48e6;
mock.timers.enable({ apis: ["setTimeout", "Date"] });
mock.method(performance, "now", () => Date.now());
const advanceTimers = (ms: number): void => mock.timers.tick(ms);
/** After this, promises that are settled have called back. */
const flushPromises = async (): Promise<void> => {
  for (let k = 0; k < 10; k++) await Promise.resolve();
};

const imagesSource = (more: Partial<ImagesRecord> = {}): ImagesRecord =>
  sourceOf("images", "x", { data: "set", block_size: 2, count: 7, ...more });

/** Blocks of items whose numbers are all their own number; `bytes` gives each block's. */
function createImageSet(
  of: ImagesRecord,
  numbers: number,
  bytes?: (k: number) => Uint8Array<ArrayBuffer>,
) {
  const asked: string[] = [];
  const dropped: string[] = [];
  let news = 0;
  const own = (k: number): Uint8Array<ArrayBuffer> => {
    const items = Array.from(
      { length: Math.min(of.block_size, of.count - k * of.block_size) },
      (_, at) => new Array<number>(numbers).fill(k * of.block_size + at),
    ).flat();
    return of.dtype === "uint8"
      ? Uint8Array.from(items)
      : new Uint8Array(Float32Array.from(items).buffer);
  };
  const feeder: Partial<Feeder> = {
    blob: async (name) => {
      asked.push(name);
      return (bytes ?? own)(Number(name.split(".")[1]));
    },
    release: (name) => dropped.push(name),
  };
  const blocks = createBlocks(of, numbers, feeder as Feeder, () => {
    news += 1;
  });
  return { blocks, asked, dropped, news: () => news };
}

for (const dtype of ["uint8", "float32"] as const)
  test(`an item of ${dtype} is the numbers of its place in its block`, async () => {
    const { blocks, asked, news } = createImageSet(imagesSource({ dtype }), 3);
    assert.equal(blocks.peekOrRequest(5), undefined);
    const [five, six] = await Promise.all([blocks.get(5), blocks.get(6)]);
    assert.deepEqual([[...five], [...six]], [[5, 5, 5], [6, 6, 6]]); // biome-ignore format: pairs
    assert.equal(five instanceof Float32Array, dtype === "float32");
    assert.deepEqual(asked, ["set.2", "set.3"], "each block once");
    assert.deepEqual([...(blocks.peekOrRequest(4) ?? [])], [4, 4, 4]);
    await flushPromises();
    assert.equal(news(), 2);
    assert.equal(blocks.bytes, (6 + 3) * (dtype === "uint8" ? 1 : 4));
    const numbers = numbersOf(five, { dtype: "float32" });
    assert.deepEqual(numbers, Float32Array.of(5, 5, 5).map((n) => (dtype === "uint8" ? n / 255 : n))); // biome-ignore format: one line
  });

test("blocks stay up to 48 MB, those that were used last, and the newest always", async () => {
  const numbers = 12e6;
  const of = imagesSource({ block_size: 1, count: 9 });
  const { blocks, asked } = createImageSet(of, numbers, () => new Uint8Array(numbers));
  for (const k of [0, 1, 2, 3]) await blocks.get(k);
  assert.equal(blocks.bytes, MAX_BYTES);
  await blocks.get(0); // used once more
  await blocks.get(4);
  assert.equal(blocks.bytes, MAX_BYTES);
  asked.length = 0;
  for (const k of [0, 4, 1]) await blocks.get(k);
  assert.deepEqual(asked, ["set.1"]);
  blocks.dispose();
  const large = createImageSet(of, 50e6, () => new Uint8Array(50e6));
  await large.blocks.get(0);
  await large.blocks.get(1);
  assert.equal(large.blocks.bytes, 50e6);
});

test("a block that did not come is asked for again behind five seconds, and one of a wrong size is none", async () => {
  let fits = false;
  const { blocks, asked, news } = createImageSet(
    imagesSource(),
    3,
    () => new Uint8Array(fits ? 6 : 5),
  );
  blocks.peekOrRequest(0);
  await flushPromises();
  advanceTimers(RETRY_MS);
  blocks.peekOrRequest(1);
  assert.deepEqual(asked, ["set.0"]);
  advanceTimers(1);
  fits = true;
  blocks.peekOrRequest(1);
  await flushPromises();
  assert.deepEqual([asked.length, news()], [2, 1]);
  assert.equal(blocks.peekOrRequest(0)?.length, 3);
  blocks.peekOrRequest(-1);
  blocks.peekOrRequest(7);
  assert.equal(asked.length, 2, "there is no such item");
});

test("blocks out of sight are let go of on their way, and asked for at once when they are", async () => {
  const { blocks, asked, dropped } = createImageSet(imagesSource(), 3);
  blocks.peekOrRequest(0);
  blocks.peekOrRequest(2);
  blocks.cancelOthers([3, 6]);
  assert.deepEqual(dropped, ["set.0"]);
  await flushPromises();
  asked.length = 0;
  blocks.peekOrRequest(0);
  assert.deepEqual(asked, [], "it came all the same");
  blocks.peekOrRequest(4);
  blocks.dispose();
  assert.deepEqual(dropped, ["set.0", "set.2"]);
});

test("the next item behind the last is the first, and shuffled each comes once", () => {
  assert.equal(nextItem(imagesSource({ index: 6 }), 1), 0);
  assert.equal(nextItem(imagesSource({ index: 0 }), -1), 6);
  assert.equal(nextItem(imagesSource({ index: 3 }), 1), 4);
  assert.equal(nextItem(imagesSource({ count: 1 }), 1), 0);
  for (const count of [1, 2, 7, 64, 65]) {
    const seen: number[] = [];
    for (let index = 0; !seen.includes(index); ) {
      seen.push(index);
      const next = nextItem(imagesSource({ index, count, shuffled: true, seed: 5 }), 1);
      assert.equal(
        nextItem(imagesSource({ index: next, count, shuffled: true, seed: 5 }), -1),
        index,
      );
      index = next;
    }
    assert.equal(seen.length, count);
    const places = Array.from({ length: count }, (_, k) => placeOf(k, count, 9, 1));
    assert.equal(new Set(places).size, count);
    assert.ok(Math.max(...places) < count);
  }
});

test("one example is fed to all of a batch", () => {
  const input = (...shape: number[]) => ({ shape }) as unknown as Input;
  assert.deepEqual(
    forAll(Float32Array.of(1, 2), input(3, 1, 1, 2)),
    Float32Array.of(1, 2, 1, 2, 1, 2),
  );
  assert.deepEqual(sidesOf(input(3, 4, 5, 6)), [4, 5, 6]);
  assert.deepEqual(sidesOf(input(2, 6)), [1, 1, 6]);
  assert.deepEqual(sidesOf(input(2, 3, 6)), [3, 1, 6]);
  assert.deepEqual(sidesOf(input(6)), [1, 1, 6]);
});

test("of equal scores the first is the likeliest, and none where one is no number", () => {
  assert.equal(likeliest(Float32Array.of(1, 3, 3)), 1);
  assert.equal(likeliest(Float32Array.of(-1, -3)), 0);
  assert.equal(likeliest(Float32Array.of(1, Number.NaN, 3)), -1);
});

test("a code that moves is sent ten times a second, and always the last", () => {
  const state = createState(FEATURES);
  state.source.value = sourceOf("latent", "x", { code: [0] });
  const code = () => {
    const now = state.source.peek();
    return now?.kind === "latent" ? now.code : now?.kind;
  };
  moveTo(state, [1]);
  moveTo(state, [2]);
  assert.deepEqual([state.latentCode.peek(), code()], [[2], [0]]);
  advanceTimers(99);
  assert.deepEqual(code(), [0]);
  advanceTimers(1);
  assert.deepEqual(code(), [2]);
  moveTo(state, [3]);
  advanceTimers(100);
  assert.deepEqual(code(), [3]);
  moveTo(state, [4]);
  state.source.value = sourceOf("noise", "x");
  advanceTimers(100);
  assert.equal(code(), "noise", "another source has come");
});

test("Python hears of pictures ten times a second, and that the last one is the last", () => {
  const state = createState(FEATURES);
  const heard: [boolean, number][] = [];
  const feeder: Partial<Feeder> = { reportFedInput: (still, rate) => heard.push([still, rate]) };
  const telling = createTelling(state, feeder as Feeder);
  telling.onFed(true);
  assert.deepEqual(heard.splice(0), [[false, 1]]);
  advanceTimers(99);
  telling.onFed(true);
  assert.deepEqual(heard, []);
  advanceTimers(1);
  telling.onFed(true);
  assert.deepEqual(heard.splice(0), [[false, 3]]);
  assert.equal(state.sourceStatus.peek().phase, "live");
  telling.markStill();
  telling.markStill();
  assert.deepEqual(heard.splice(0), [[true, 0]]);
  assert.equal(state.sourceStatus.peek().phase, "still");
  telling.onFed(false);
  telling.onFed(false); // as the strokes of a pen
  advanceTimers(100);
  assert.deepEqual(heard.splice(0), [[true, 0]]);
  advanceTimers(1000);
  telling.onFed(true);
  assert.deepEqual(heard.splice(0), [[false, 1]], "pictures of the last second");
  telling.dispose();
});

test("of many values the first goes at once, and behind it the last of each time", () => {
  const given: number[] = [];
  const { take, dispose } = spaced<number>(100, (value) => given.push(value));
  for (const value of [1, 2, 3]) take(value);
  assert.deepEqual(given, [1]);
  advanceTimers(99);
  assert.deepEqual(given, [1]);
  advanceTimers(1);
  assert.deepEqual(given, [1, 3]);
  advanceTimers(100);
  take(4);
  assert.deepEqual(given, [1, 3, 4]);
  take(5);
  dispose();
  advanceTimers(1000);
  assert.deepEqual(given, [1, 3, 4]);
});

test("texts are a list of texts in JSON, and none where it is another thing", () => {
  const bytes = (text: string) => new Uint8Array(new TextEncoder().encode(text));
  assert.deepEqual(textsOf(bytes('["a", "b"]')), ["a", "b"]);
  for (const wrong of ['["a", 1]', '{"0": "a"}', "[", "null"]) assert.deepEqual(textsOf(bytes(wrong)), []); // biome-ignore format: one line
  assert.deepEqual(textsOf(undefined), []);
});

test("what is drawn is the mean of each square, channel after channel", () => {
  const times = 2;
  const [width, height] = [3 * times, 2 * times];
  const data = new Uint8ClampedArray(4 * width * height);
  // A square's red is its number times 40, green ten less, blue 255 in its first pixel alone.
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const square = Math.floor(y / times) * 3 + Math.floor(x / times);
      const first = y % times === 0 && x % times === 0;
      data.set([40 * square + 10, 40 * square, first ? 255 : 0, 255], 4 * (y * width + x));
    }
  }
  const pixels = { data, width, height } as ImageData;
  const squares = [0, 1, 2, 3, 4, 5];
  const near = (found: Float32Array, expected: number[]) => {
    assert.equal(found.length, expected.length);
    for (const [k, one] of expected.entries()) assert.ok(Math.abs((found[k] ?? -1) - one) < 1e-6);
  };
  const red = squares.map((k) => (40 * k + 10) / 255);
  near(averaged(pixels, times, 1), red);
  const green = squares.map((k) => (40 * k) / 255);
  near(averaged(pixels, times, 3), [...red, ...green, ...squares.map(() => 0.25)]);
});

test("pictures come at their rate, one at a time, and none behind the end", async () => {
  const at: number[] = [];
  let slow: (() => void) | undefined;
  let now = false;
  const start = Date.now();
  const running = loop(
    () => 10,
    async () => undefined,
    async () => {
      at.push(Date.now() - start);
      if (now) await new Promise<void>((done) => (slow = done));
    },
  );
  for (let k = 0; k < 35; k++) {
    await flushPromises();
    mock.timers.tick(10);
  }
  await flushPromises();
  assert.deepEqual(at.splice(0), [0, 100, 200, 300]);
  now = true;
  for (let k = 0; k < 50; k++) {
    await flushPromises();
    mock.timers.tick(10);
  }
  assert.equal(at.length, 1, "the one before has not ended");
  now = false;
  slow?.();
  await flushPromises();
  await flushPromises();
  assert.equal(at.length, 3, "one that is late and one that is due; the others are left out");
  const end = running.stop();
  for (let k = 0; k < 20; k++) {
    mock.timers.tick(10);
    await flushPromises();
  }
  await end;
  assert.equal(at.length, 3);
});

const IMAGE = { dtype: "float32", layout: "NCHW", shape: [1, 1, 2, 2] };

test("points that are drawn during a run are fed after it", async () => {
  let lines = 0;
  const context = {
    fillRect: () => undefined,
    beginPath: () => undefined,
    moveTo: () => undefined,
    lineTo: () => undefined,
    stroke: () => {
      lines += 1;
    },
    // Each pixel is the number of lines that were drawn.
    getImageData: (_x: number, _y: number, width: number, height: number) => ({
      data: new Uint8ClampedArray(4 * width * height).fill(lines),
      width,
      height,
    }),
  };
  Object.assign(globalThis, { document: { createElement: () => ({ getContext: () => context }) } });
  const fed: number[] = [];
  const runs: (() => void)[] = [];
  let pen: Pen | null | undefined;
  drawing.open({
    input: IMAGE,
    source: sourceOf("drawing", "x", { owner: "page" }),
    feeder: { pageId: "page" },
    feed({ data }: { data: Float32Array }) {
      fed.push(Math.round(255 * (data[0] ?? 0)));
      return new Promise<void>((done) => runs.push(done));
    },
    updateControls: (controls: Partial<SourceControls>) => {
      pen = controls.pen;
    },
  } as unknown as InputSlot<DrawingRecord>);
  pen?.begin(0, 0, 0.5);
  const first = lines;
  assert.deepEqual(fed, [first]);
  pen?.move(1, 0, 0.5);
  pen?.move(1, 1, 0.5);
  assert.deepEqual(fed, [first], "one run at a time");
  runs.shift()?.();
  await flushPromises();
  assert.ok(lines > first);
  assert.deepEqual(fed, [first, lines]);
  runs.shift()?.();
  await flushPromises();
  assert.deepEqual(fed, [first, lines]);
});

test("a camera that is allowed after its source has ended is stopped at once", async () => {
  let allow: (stream: unknown) => void = () => undefined;
  const asked = new Promise((resolve) => {
    allow = resolve;
  });
  const video = { pause: () => undefined };
  Object.assign(globalThis, {
    document: { createElement: () => video },
    window: { isSecureContext: true },
  });
  const navigator = { mediaDevices: { getUserMedia: () => asked } };
  Object.defineProperty(globalThis, "navigator", { value: navigator });
  const running = webcam.open({
    state: createState(FEATURES),
    source: sourceOf("webcam", "x", { owner: "page" }),
    feeder: { pageId: "page" },
    updateControls: () => undefined,
    setPhase: () => undefined,
    fail: (_: string, detail: unknown) => assert.fail(`${detail}`),
  } as unknown as InputSlot<WebcamRecord>);
  running.dispose();
  let stopped = 0;
  const track = {
    stop: () => {
      stopped += 1;
    },
  };
  allow({ getTracks: () => [track], getVideoTracks: () => [track] });
  await flushPromises();
  assert.equal(stopped, 1);
});

test("a source that moves to another input of the same shape feeds that one", async () => {
  const listeners = { addEventListener: () => undefined, removeEventListener: () => undefined };
  Object.assign(globalThis, { document: { ...listeners, hidden: false }, window: listeners });
  const state = createState(FEATURES);
  const fed: (string | undefined)[] = [];
  const feeder: Partial<Feeder> = {
    pageId: "page",
    feed: async (one) => {
      fed.push(one?.key);
    },
    reportFedInput: () => undefined,
  };
  state.plan.value = { inputs: ["x", "y"].map((key) => ({ ...IMAGE, key })) } as never;
  state.feeder.value = feeder as Feeder;
  const end = runSources(state);
  const noise = sourceOf("noise", "x");
  state.source.value = noise;
  state.source.value = { ...noise, input: "y" };
  await flushPromises();
  assert.deepEqual(fed, ["x", "y"]);
  end();
});
