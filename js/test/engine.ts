// What tests/page/test_engine.py calls in a browser: an engine with no client in Python and no view.

import { createEngine } from "../src/engine/engine.ts";
import { pageStore } from "../src/engine/store.ts";
import type { Content, Engine } from "../src/engine/types.ts";
import type { DrawJob, Session } from "../src/plan/runtime.ts";
import type { GlDevice } from "../src/webgl/device.ts";
import { WEBGL } from "../src/webgl/runtime.ts";

const store = pageStore();
const told: string[] = [];
/** Names of the edits that were left out, each time that was told. */
const left: string[][] = [];
/** Bytes of textures written, and programs compiled, since `counted` was set to nothing. */
const counted = { uploaded: 0, patched: 0, compiled: 0, sessions: 0 };

const makeEngine = () =>
  createEngine(WEBGL, {
    onProgress: ({ stage }) => {
      if (told.at(-1) !== stage) told.push(stage);
    },
    onLost: () => told.push("lost"),
    onRestored: () => told.push("restored"),
    onTimed: () => told.push("timed"),
    onPace: () => undefined,
    onEdits: (edits) => left.push(edits.map(({ name }) => name)),
    isBusy: () => false,
  });

const engine = makeEngine();
const device = engine.device as GlDevice;
const { gl } = device;
const { compileShader } = gl;
const { upload } = device.resources;
gl.compileShader = (shader) => {
  counted.compiled += 1;
  compileShader.call(gl, shader);
};
device.resources.upload = function* (texture, size, data) {
  counted.uploaded += data.byteLength;
  yield* upload.call(device.resources, texture, size, data);
};
const { patch } = device.resources;
device.resources.patch = (texture, one) => {
  counted.patched += one.data.byteLength;
  patch.call(device.resources, texture, one);
};
let last: Session | null = null;
/** Whether there was a picture to look at, whenever the session changed. */
const gaps: boolean[] = [];
engine.signals.session.subscribe((session) => {
  if (session !== last && session !== null) counted.sessions += 1;
  gaps.push(session === null || session.sequence === 0);
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
    told,
    left,
    counted,
    gaps,
    put: (hash: string, data: string) => store.put(hash, bytesOf(data), 1),
    /** Shows `content` with further patches on top of those that are shown. */
    patch(content: Content, patches: [number, number, number, number, number, number, string][]) {
      const more = patches.map(([texture, layer, x, y, width, height, text]) => {
        const data = new Float32Array(bytesOf(text).buffer);
        return { texture, layer, x, y, width, height, data };
      });
      const before = engine.shown?.patches ?? [];
      return engine.show({ ...content, patches: [...before, ...more] });
    },
    read: async (key: string, of = engine) => textOf(await of.read(key)),
    draw,
    /** When what was compiled ahead is there. */
    ahead: () => engine.prepared(),
    lose: () => gl.getExtension("WEBGL_lose_context"),
    alive: () => ({ ...device.alive }),
  },
});
