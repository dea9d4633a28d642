// A page where another one trains: how often it says that it sees the training, and which weights it shows.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { signal } from "@preact/signals";
import type { TrainingHost } from "../src/features/training/state.ts";
import type { ViewerState } from "../src/state.ts";
import "./text_imports.ts";

const { RemoteTrainingView: Elsewhere } = await import("../src/features/training/remote_view.ts");

mock.timers.enable({ apis: ["setInterval", "setTimeout"] });

/** After this, promises that are settled have called back. */
const flushPromises = async (): Promise<void> => {
  for (let k = 0; k < 20; k++) await Promise.resolve();
};

function createRemoteView() {
  const said: unknown[] = [];
  const blobs: string[] = [];
  const record = { id: "a", swap_count: 1, state: "running" };
  const own = {
    progress: signal<unknown>(null),
    remoteView: signal({ training: "", round: 0, blob: "" }),
    training: signal<unknown>(record),
  };
  const host: Partial<TrainingHost> = {
    reportSteps: (...all: unknown[]) => void said.push(all),
    blob: async (name: string) => {
      blobs.push(name);
      throw new Error("it is not here");
    },
  };
  const page = new Elsewhere(own as unknown as ViewerState, host as TrainingHost, record as never);
  return { said, blobs, own, page };
}

test("it says that it sees the training at once, then every two seconds, until it is closed", () => {
  const { said, page } = createRemoteView();
  assert.equal(said.length, 1);
  mock.timers.tick(1_999);
  assert.equal(said.length, 1);
  mock.timers.tick(1);
  assert.equal(said.length, 2);
  mock.timers.tick(2_000);
  assert.equal(said.length, 3);
  page.close();
  mock.timers.tick(10_000);
  assert.equal(said.length, 3);
});

test("a training that has stopped is not asked for", () => {
  const { said, own, page } = createRemoteView();
  own.training.value = { id: "a", swap_count: 1, state: "stopped" };
  page.update();
  mock.timers.tick(10_000);
  assert.equal(said.length, 1);
  assert.equal((own.progress.value as { phase: string }).phase, "stopped");
  page.close();
});

test("weights of another training or round are not shown, and what did not come is tried again", async () => {
  const { blobs, own, page } = createRemoteView();
  for (const other of [
    { training: "b", round: 1 },
    { training: "a", round: 2 },
  ]) {
    own.remoteView.value = { ...other, blob: "x" };
    await flushPromises();
    assert.deepEqual(blobs, []);
  }
  own.remoteView.value = { training: "a", round: 1, blob: "x" };
  await flushPromises();
  const asked = blobs.length;
  assert.ok(asked > 0);
  own.remoteView.value = { training: "a", round: 1, blob: "x" };
  await flushPromises();
  assert.ok(blobs.length > asked, "with the next one again");
  page.close();
  const before = blobs.length;
  own.remoteView.value = { training: "a", round: 1, blob: "y" };
  await flushPromises();
  assert.equal(blobs.length, before);
});
