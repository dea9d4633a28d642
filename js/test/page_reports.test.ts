// What a page tells Python by itself: how often, and what it leaves out because Python has heard it already.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { AnyModel } from "@anywidget/types";
import { signal } from "@preact/signals";
import { type PageReportEvents, PageReports } from "../src/comm/page_reports.ts";
import type { Engine } from "../src/engine/types.ts";
import type { FromPage, HoverTarget } from "../src/messages.ts";
import type { ViewerState } from "../src/state.ts";

mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: 10_000 });
mock.method(performance, "now", () => Date.now());
Object.assign(globalThis, { document: { getElementById: () => null, querySelector: () => null } });
Object.assign(globalThis, { location: new URL("http://localhost/") });

function createReportingPage() {
  const sent: FromPage[] = [];
  const isConnected = signal(true);
  const hoverTarget = signal<HoverTarget | null>(null);
  const engine = {
    deviceError: undefined,
    bytes: 1,
    contextLosses: 0,
    viewCount: 1,
    device: { isLost: false },
  };
  const lost: number[] = [];
  let reached = true;
  const model = {
    send: (message: FromPage) => {
      if (!reached) throw new Error("no kernel");
      sent.push(message);
    },
  };
  const events: PageReportEvents = {
    cachedBlobHashes: () => ["a"],
    onDisconnected: () => lost.push(1),
  };
  const reports = new PageReports(
    model as unknown as AnyModel,
    "page",
    engine as unknown as Engine,
    { isConnected, hoverTarget } as unknown as ViewerState,
    events,
  );
  const types = () => sent.splice(0).map(({ type }) => type);
  return {
    sent,
    isConnected,
    hoverTarget,
    engine,
    reports,
    types,
    gone: () => lost.length,
    lose: () => {
      reached = false;
    },
  };
}

test("a hello is said again after one second, then after two and four, until Python answers", () => {
  const { reports, types } = createReportingPage();
  Object.assign(reports, { engine: { device: undefined, deviceError: undefined } });
  reports.sendHello();
  assert.deepEqual(types(), ["hello"]);
  for (const wait of [1000, 2000, 4000]) {
    mock.timers.tick(wait - 1);
    assert.deepEqual(types(), []);
    mock.timers.tick(1);
    assert.deepEqual(types(), ["hello"]);
  }
  reports.stopHello();
  mock.timers.tick(60_000);
  assert.deepEqual(types(), []);
  reports.dispose();
});

test("a page that is not connected says nothing, and one that is not reached says so", () => {
  const { reports, isConnected, types, gone, lose } = createReportingPage();
  isConnected.value = false;
  reports.reportContextHealth();
  assert.deepEqual(types(), []);
  isConnected.value = true;
  lose();
  reports.reportRun({ ms: 1, clock: "gpu", passes: 1 } as never, 1, false);
  assert.deepEqual([types(), gone()], [[], 1]);
  reports.dispose();
});

test("what goes on is said at once, then every half second, until it is over", () => {
  const { reports, sent } = createReportingPage();
  const done = () =>
    sent.splice(0).map((message) => (message.type === "progress" ? message.done : undefined));
  reports.setProgress("compiling", 0, 9);
  assert.deepEqual(done(), [0]);
  reports.setProgress("compiling", 1, 9);
  mock.timers.tick(499);
  reports.setProgress("compiling", 2, 9);
  assert.deepEqual(done(), []);
  mock.timers.tick(1);
  assert.deepEqual(done(), [2]);
  mock.timers.tick(500);
  assert.deepEqual(done(), [2], "it is still going on");
  reports.clearProgress();
  mock.timers.tick(2000);
  assert.deepEqual(done(), []);
  reports.setProgress("compiling", 3, 9);
  assert.deepEqual(done(), [3]);
  reports.stopTimers();
  mock.timers.tick(2000);
  assert.deepEqual(done(), []);
});

test("the context is reported where anything of it has changed", () => {
  const { reports, engine, sent, types } = createReportingPage();
  reports.reportContextHealth();
  reports.reportContextHealth();
  assert.deepEqual(types(), ["contexthealth"]);
  const changes = [
    { bytes: 2 },
    { contextLosses: 1 },
    { viewCount: 2 },
    { device: { isLost: true } },
  ];
  for (const change of changes) {
    Object.assign(engine, change);
    reports.reportContextHealth();
    reports.reportContextHealth();
    assert.equal(sent.length, 1);
    const [said] = sent.splice(0);
    const lost = engine.device.isLost;
    const { bytes, contextLosses: losses, viewCount: views } = engine;
    assert.deepEqual(said, { type: "contexthealth", page: "page", lost, losses, bytes, views });
  }
  reports.dispose();
});

test("the pointer is followed ten times a second, the last place always, and not where it began", () => {
  const { reports, hoverTarget, sent } = createReportingPage();
  const at = (channel: number) => ({ layer: "a", channel }) as unknown as HoverTarget;
  const places = () =>
    sent.splice(0).map((message) => (message.type === "pointerhover" ? message.target : undefined));
  hoverTarget.value = at(0);
  reports.startPointerReports();
  mock.timers.tick(100);
  assert.deepEqual(places(), []);
  hoverTarget.value = at(1);
  hoverTarget.value = at(2);
  hoverTarget.value = at(3);
  assert.deepEqual(places(), [at(1)]);
  mock.timers.tick(100);
  assert.deepEqual(places(), [at(3)]);
  hoverTarget.value = null;
  mock.timers.tick(100);
  assert.deepEqual(places(), [null]);
  hoverTarget.value = at(4);
  hoverTarget.value = at(5);
  reports.dispose();
  mock.timers.tick(1000);
  hoverTarget.value = at(6);
  mock.timers.tick(1000);
  assert.ok(!places().some((one) => one !== null && [5, 6].includes(Number(one?.channel))));
});
