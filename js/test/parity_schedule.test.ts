// When a comparison with the reference is due, by a clock of the test's own.
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { signal } from "@preact/signals";
import {
  CHECK_INTERVAL_MS,
  ENGINE_IDLE_AFTER_MS,
  LIVE_SOURCE_DELAY_MS,
  ParityScheduler,
} from "../src/engine/parity_check_schedule.ts";
import type { Engine } from "../src/engine/types.ts";
import { findEqualExamples } from "../src/engine/value_samples.ts";
import type { PlanHeader } from "../src/plan/schema.ts";

let now = 0;
const realNow = performance.now;

beforeEach(() => {
  now = 0;
  mock.timers.enable({ apis: ["setTimeout"] });
  performance.now = () => now;
});

afterEach(() => {
  mock.timers.reset();
  performance.now = realNow;
});

interface ParityHost {
  readonly checks: ParityScheduler;
  readonly page: { hidden: boolean; see(): void };
  asked: number;
  ready: boolean;
  apart: boolean;
  looked: number;
  losses: number;
  run(): void;
  pass(ms: number): Promise<void>;
}

/** An engine, and a client that makes each check at once. */
function createParityHost(makes = true): ParityHost {
  const run = signal<unknown>(null);
  const engine = { signals: { run }, runCount: 0, contextLosses: 0 };
  let see: () => void = () => undefined;
  const page = { hidden: false, see: () => see() };
  const document = {
    get hidden() {
      return page.hidden;
    },
    addEventListener: (_: string, heard: () => void) => {
      see = heard;
    },
    removeEventListener: () => undefined,
  };
  Object.assign(globalThis, { document });
  const own: ParityHost = {
    checks: new ParityScheduler(engine as unknown as Engine, {
      isReadyToCheck: () => own.ready,
      requestCheck: () => {
        own.asked += 1;
        if (makes) own.checks.markCheckDone();
      },
      hasNewMismatch: async () => {
        own.looked += 1;
        return own.apart;
      },
    }),
    page,
    asked: 0,
    ready: true,
    apart: false,
    looked: 0,
    get losses() {
      return engine.contextLosses;
    },
    set losses(count) {
      engine.contextLosses = count;
    },
    run() {
      engine.runCount += 1;
      run.value = {};
    },
    async pass(ms) {
      for (let left = ms; left > 0; left -= 100) {
        now += Math.min(left, 100);
        mock.timers.tick(Math.min(left, 100));
        await Promise.resolve().then(() => undefined);
        await new Promise((done) => setImmediate(done));
      }
    },
  };
  return own;
}

const IDLE_PAUSE_MS = 2 * ENGINE_IDLE_AFTER_MS;

test("a check is due behind the first, the second and the tenth run", async () => {
  const own = createParityHost();
  const due: number[] = [];
  for (let run = 1; run <= 20; run++) {
    own.run();
    const before = own.asked;
    await own.pass(IDLE_PAUSE_MS);
    if (own.asked > before) due.push(run);
  }
  assert.deepEqual(due, [1, 2, 10]);
  own.checks.dispose();
});

test("nothing is checked while one run follows another, but a live source now and then", async () => {
  const own = createParityHost();
  own.run();
  await own.pass(IDLE_PAUSE_MS);
  assert.equal(own.asked, 1);
  const live = async (ms: number) => {
    for (let at = 0; at < ms; at += 100) {
      own.run();
      await own.pass(100);
    }
  };
  await live(LIVE_SOURCE_DELAY_MS - 500);
  assert.equal(own.asked, 1);
  await live(3_000);
  assert.equal(own.asked, 2);
  await live(CHECK_INTERVAL_MS / 2);
  assert.equal(own.asked, 2);
  await live(CHECK_INTERVAL_MS / 2 + LIVE_SOURCE_DELAY_MS);
  assert.equal(own.asked, 3);
  own.checks.dispose();
});

test("what has run is checked once more in time, and what has not is left alone", async () => {
  const own = createParityHost();
  for (let run = 0; run < 12; run++) {
    own.run();
    await own.pass(IDLE_PAUSE_MS);
  }
  assert.equal(own.asked, 3);
  await own.pass(2 * CHECK_INTERVAL_MS);
  assert.equal(own.asked, 4); // of the two runs behind the tenth
  await own.pass(3 * CHECK_INTERVAL_MS);
  assert.equal(own.asked, 4);
  own.checks.dispose();
});

test("a lost context is followed by a check", async () => {
  const own = createParityHost();
  for (let run = 0; run < 12; run++) {
    own.run();
    await own.pass(IDLE_PAUSE_MS);
  }
  own.losses = 1;
  own.run();
  await own.pass(IDLE_PAUSE_MS);
  assert.equal(own.asked, 4);
  own.checks.dispose();
});

test("a hidden page is left alone until it is seen", async () => {
  const own = createParityHost();
  own.page.hidden = true;
  own.run();
  await own.pass(2 * CHECK_INTERVAL_MS);
  assert.equal(own.asked, 0);
  own.page.hidden = false;
  own.page.see();
  await own.pass(IDLE_PAUSE_MS);
  assert.equal(own.asked, 1);
  own.checks.dispose();
});

test("equal examples are looked at once a run, and a difference is checked", async () => {
  const own = createParityHost();
  for (let run = 0; run < 4; run++) {
    own.run();
    await own.pass(IDLE_PAUSE_MS);
  }
  assert.deepEqual([own.looked, own.asked], [2, 2]); // behind the third and fourth run
  await own.pass(10 * IDLE_PAUSE_MS);
  assert.equal(own.looked, 2);
  own.apart = true;
  own.run();
  await own.pass(IDLE_PAUSE_MS);
  assert.deepEqual([own.looked, own.asked], [3, 3]);
  own.checks.dispose();
});

test("where something else goes first it is asked again, each time later", async () => {
  const own = createParityHost();
  own.ready = false;
  own.run();
  await own.pass(10_000);
  own.ready = true;
  await own.pass(10_000);
  assert.equal(own.asked, 1);
  own.checks.dispose();
  const slow = createParityHost(false); // it is never made
  slow.run();
  await slow.pass(5 * ENGINE_IDLE_AFTER_MS);
  assert.ok(slow.asked >= 2);
  slow.checks.dispose();
  await slow.pass(5 * ENGINE_IDLE_AFTER_MS);
});

test("another network is checked from its first run on", async () => {
  const own = createParityHost();
  for (let run = 0; run < 12; run++) {
    own.run();
    await own.pass(IDLE_PAUSE_MS);
  }
  own.checks.restart();
  await own.pass(IDLE_PAUSE_MS);
  assert.equal(own.asked, 4);
  own.run();
  await own.pass(IDLE_PAUSE_MS);
  assert.equal(own.asked, 5);
  own.checks.dispose();
});

test("twins are examples with the same bits in every input that has examples", () => {
  const plan = (...shapes: number[][]) =>
    ({
      batch: shapes[0]?.[0] ?? 1,
      inputs: shapes.map((shape) => ({ shape })),
    }) as unknown as PlanHeader;
  const bytes = (...numbers: number[]) => new Uint8Array(new Float32Array(numbers).buffer);
  assert.deepEqual(findEqualExamples(plan([3, 2]), [bytes(1, 2, 3, 4, 1, 2)]), [0, 2]);
  assert.equal(findEqualExamples(plan([3, 2]), [bytes(1, 2, 3, 4, 1, 5)]), undefined);
  assert.equal(findEqualExamples(plan([2, 1]), [bytes(0, -0)]), undefined);
  assert.deepEqual(findEqualExamples(plan([3, 1], [1]), [bytes(4, 7, 7), bytes(9)]), [1, 2]);
  assert.equal(findEqualExamples(plan([2, 1], [2, 1]), [bytes(7, 7), bytes(1, 2)]), undefined);
  assert.equal(findEqualExamples(plan([1, 2]), [bytes(7, 7)]), undefined);
});
