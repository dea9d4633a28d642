// What tests/page/test_engine.py calls in a browser: an engine with no client in Python and no view.

import { createEngine } from "../src/engine/engine.ts";
import { pageStore } from "../src/engine/page_store.ts";
import type { Engine, NetworkContent } from "../src/engine/types.ts";
import type { DrawJob, Session } from "../src/plan/runtime.ts";
import type { GlDevice } from "../src/webgl/gl_device.ts";
import { WEBGL_RUNTIME } from "../src/webgl/runtime.ts";

const store = pageStore();
const events: string[] = [];
/** Names of the edits that were left out, each time that was told. */
const skippedEdits: string[][] = [];
/** Bytes of textures written, and programs compiled, since `counted` was set to nothing. */
const counters = { uploaded: 0, patched: 0, compiled: 0, sessions: 0 };

const makeEngine = () =>
  createEngine(WEBGL_RUNTIME, {
    onProgress: ({ stage }) => {
      if (events.at(-1) !== stage) events.push(stage);
    },
    onContextLost: () => events.push("lost"),
    onContextRestored: () => events.push("restored"),
    onRunTimed: () => events.push("timed"),
    onRunRate: () => undefined,
    onSkippedEdits: (edits) => skippedEdits.push(edits.map(({ name }) => name)),
    isBusy: () => false,
  });

const engine = makeEngine();
const device = engine.device as GlDevice;
const { gl } = device;
const { compileShader } = gl;
const { upload } = device.resources;
gl.compileShader = (shader) => {
  counters.compiled += 1;
  compileShader.call(gl, shader);
};
device.resources.upload = function* (texture, size, data) {
  counters.uploaded += data.byteLength;
  yield* upload.call(device.resources, texture, size, data);
};
const { uploadPatch: patch } = device.resources;
device.resources.uploadPatch = (texture, one) => {
  counters.patched += one.data.byteLength;
  patch.call(device.resources, texture, one);
};
let last: Session | null = null;
/** Whether there was a picture to look at, whenever the session changed. */
const emptyFrames: boolean[] = [];
engine.signals.session.subscribe((session) => {
  if (session !== last && session !== null) counters.sessions += 1;
  emptyFrames.push(session === null || session.sequence === 0);
  last = session;
});

const bytesOf = (text: string) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

function textOf(data: Float32Array | Uint8ClampedArray): string {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function draw(job: Omit<DrawJob, "canvas">): string {
  const canvas = document.createElement("canvas");
  engine.signals.session.peek()?.draw([{ ...job, canvas }]);
  const pixels = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data;
  return textOf(pixels ?? new Uint8ClampedArray());
}

Object.assign(globalThis, {
  page: {
    engine,
    second: undefined as Engine | undefined,
    makeEngine,
    told: events,
    left: skippedEdits,
    counted: counters,
    gaps: emptyFrames,
    put: (hash: string, data: string) => store.add(hash, bytesOf(data), 1),
    /** Shows `content` with further patches on top of those that are shown. */
    patch(
      content: NetworkContent,
      patches: [number, number, number, number, number, number, string][],
    ) {
      const more = patches.map(([texture, layer, x, y, width, height, text]) => {
        const data = new Float32Array(bytesOf(text).buffer);
        return { texture, layer, x, y, width, height, data };
      });
      const before = engine.currentContent?.patches ?? [];
      return engine.show({ ...content, patches: [...before, ...more] });
    },
    read: async (key: string, of = engine) => textOf(await of.read(key)),
    draw,
    /** When what was compiled ahead is there. */
    ahead: () => engine.whenCompiled(),
    lose: () => gl.getExtension("WEBGL_lose_context"),
    alive: () => ({ ...device.liveObjects }),
  },
});
