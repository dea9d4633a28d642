// Codes that are tried beside the one that is shown, in a session of their own: when it is opened, and when it ends.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { batch, signal } from "@preact/signals";
import type { Edit } from "../src/plan/edits.ts";
import type { ViewerState } from "../src/state.ts";
import "./text_imports.ts";

const { createDecodeSession: createTries } = await import(
  "../src/features/latent/views/decode_session.ts"
);
const { latentEdit, codeToValue: valueOfCode } = await import(
  "../src/features/latent/latent_source.ts"
);

mock.timers.enable({ apis: ["setTimeout"] });

const plan = {
  values: [
    { key: "code", nchw: [2, 3, 1, 1] },
    { key: "empty", nchw: [0, 3, 1, 1] },
  ],
};

/** After this, promises that are settled have called back. */
const flushPromises = async (): Promise<void> => {
  for (let k = 0; k < 20; k++) await Promise.resolve();
};

function createDecodeSession() {
  const counts = { opened: 0, closed: 0, drawn: 0 };
  const arrays: (Float32Array | undefined)[] = [];
  const names: string[] = [];
  const layers: string[][] = [];
  const open = async () => {
    counts.opened += 1;
    return {
      plan,
      setEdits: async (edits: readonly Edit[], arrayOf: (hash: string) => Float32Array) => {
        layers.push(edits.map(({ layer }) => layer));
        names.push(edits[0]?.array_hash ?? "");
        arrays.push(arrayOf(edits[0]?.array_hash ?? ""));
      },
      run: async () => undefined,
      draw: () => {
        counts.drawn += 1;
      },
      dispose: () => {
        counts.closed += 1;
      },
    };
  };
  const own = {
    featureEdits: signal<unknown>(null),
    currentEdits: signal<{ edits: readonly Edit[] }>({ edits: [] }),
    session: signal(0),
    run: signal(0),
    forkSession: signal<unknown>(open),
  };
  const tries = createTries(own as unknown as ViewerState);
  const draw = (code = [1, 2, 3], layer = "code") =>
    tries.draw(layer, code, {} as never, {} as HTMLCanvasElement);
  return { own, tries, draw, counts, arrays, names, layers };
}

test("a code is the layer's value of one example or of all, and of no other length", () => {
  const of = (code: number[], input = "code") => {
    const found = valueOfCode(plan as never, { input, code });
    return found && [...found];
  };
  assert.deepEqual(of([1, 2, 3]), [1, 2, 3, 1, 2, 3]);
  assert.deepEqual(of([1, 2, 3, 4, 5, 6]), [1, 2, 3, 4, 5, 6]);
  for (const code of [[], [1], [1, 2], [1, 2, 3, 4], [...Array(12).keys()]]) {
    assert.equal(of(code), undefined, `${code.length}`);
  }
  assert.equal(of([1, 2, 3], "empty"), undefined);
  assert.equal(of([1, 2, 3], "another"), undefined);
});

test("all codes have one session, in front of the current edits, each with an array of its own", async () => {
  const { own, tries, draw, counts, arrays, names, layers } = createDecodeSession();
  assert.deepEqual(await Promise.all([draw(), draw([4, 5, 6])]), [true, true]);
  assert.deepEqual(counts, { opened: 1, closed: 0, drawn: 2 });
  assert.deepEqual(arrays.map((one) => [...(one ?? [])]), [[1, 2, 3, 1, 2, 3], [4, 5, 6, 4, 5, 6]]); // biome-ignore format: rows
  assert.notEqual(names[0], names[1]);
  assert.equal(await draw([1, 2]), false, "no code of this layer");
  own.currentEdits.value = { edits: [latentEdit("later", "none")] };
  assert.equal(await draw(), true);
  assert.deepEqual(layers.at(-1), ["code", "later"]);
  tries.dispose();
});

test("other weights or bends end the session, another code alone does not", async () => {
  const { own, tries, draw, counts } = createDecodeSession();
  let heard = 0;
  const end = tries.onChange(() => {
    heard += 1;
  });
  await draw();
  const { epoch } = tries;
  own.featureEdits.value = "another";
  own.run.value += 1;
  await flushPromises();
  assert.equal(tries.epoch, epoch, "the run of that code");
  own.run.value += 1;
  assert.equal(tries.epoch, epoch + 1, "a run of other weights or inputs");
  own.session.value += 1;
  await flushPromises();
  assert.equal(tries.epoch, epoch + 2);
  assert.equal(counts.closed, 1);
  await draw();
  assert.equal(counts.opened, 2);
  const before = [tries.epoch, heard];
  own.currentEdits.value = { edits: [latentEdit("later", "none")] };
  await flushPromises();
  assert.deepEqual([tries.epoch, heard], [(before[0] ?? 0) + 1, (before[1] ?? 0) + 1]);
  assert.equal(counts.closed, 2);
  // Another code and other bends at once.
  batch(() => {
    own.featureEdits.value = "a third";
    own.currentEdits.value = { edits: [] };
  });
  assert.equal(tries.epoch, (before[0] ?? 0) + 2);
  end();
  own.session.value += 1;
  assert.equal(heard, (before[1] ?? 0) + 2);
  tries.dispose();
});

test("what was asked for before a change is not drawn behind it", async () => {
  const { own, tries, draw, counts } = createDecodeSession();
  const one = draw();
  own.session.value += 1;
  assert.equal(await one, false);
  assert.equal(counts.drawn, 0);
  const other = draw();
  tries.dispose();
  assert.equal(await other, false);
  await flushPromises();
  assert.equal(counts.opened, counts.closed);
});

test("a session that was not used for ten seconds ends, and the next code opens another", async () => {
  const { own, tries, draw, counts } = createDecodeSession();
  await draw();
  mock.timers.tick(9_999);
  await draw();
  mock.timers.tick(9_999);
  await flushPromises();
  assert.equal(counts.closed, 0, "used meanwhile");
  mock.timers.tick(1);
  await flushPromises();
  assert.deepEqual(counts, { opened: 1, closed: 1, drawn: 2 });
  assert.equal(await draw(), true);
  assert.equal(counts.opened, 2);
  own.forkSession.value = null;
  mock.timers.tick(10_000);
  assert.equal(await draw(), false, "no session can be had");
  tries.dispose();
});
