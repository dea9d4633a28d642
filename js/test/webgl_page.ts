// What tests/support/webgl_page.py calls in a browser: the GL layer with arrays as base64, since JSON has no NaN.

import {
  beforeEditsKey,
  differenceKey,
  intermediateKey,
  uneditedKey,
} from "../src/plan/derived_values.ts";
import { bendProgram, bendUniforms, packUniformBlocks } from "../src/plan/edit_program.ts";
import type { Edit } from "../src/plan/edits.ts";
import { parsePlan } from "../src/plan/plan_file.ts";
import type { CanvasTransfer, DrawJob, Progress, Session } from "../src/plan/runtime.ts";
import type { Value } from "../src/plan/schema.ts";
import { load } from "../src/runtime.ts";
import { type GlDevice, openDevice } from "../src/webgl/gl_device.ts";
import { measureReadSpeed } from "../src/webgl/read_speed.ts";
import { createSession } from "../src/webgl/session.ts";
import { PLAIN_EDIT } from "./plain_edit.ts";

let device: GlDevice | undefined;
const sessions: Session[] = [];
const progressReports: Progress[] = [];
const events: string[] = [];
/** Injected arrays by their hash. */
const arrays = new Map<string, Float32Array>();
/** Calls of WebGL by their names, and bytes of those that upload. */
const callCounts: Record<string, number> = {};

/** Whether this draws another band of a pass: under load runs are submitted in bands, however short they are. */
const isLaterDrawBand = (gl: WebGL2RenderingContext): boolean => {
  if (!gl.isEnabled(gl.SCISSOR_TEST)) return false;
  const [x, y] = gl.getParameter(gl.SCISSOR_BOX) as Int32Array;
  return x !== 0 || y !== 0;
};

/** Counts what is made, uploaded and drawn from here on; a pass that is drawn in bands counts once. */
function countCalls(): void {
  const { prototype } = WebGL2RenderingContext;
  const counted = ["createTexture", "linkProgram", "bufferSubData", "bufferData", "texSubImage3D"];
  for (const name of [...counted, "texStorage3D", "drawArrays"] as const) {
    const own = Reflect.get(prototype, name) as (...given: unknown[]) => unknown;
    Reflect.set(prototype, name, function (this: WebGL2RenderingContext, ...given: unknown[]) {
      if (name !== "drawArrays" || !isLaterDrawBand(this))
        callCounts[name] = (callCounts[name] ?? 0) + 1;
      return own.apply(this, given);
    });
  }
}

function setEdits(index: number, edits: readonly Partial<Edit>[]): Promise<void> {
  const whole = edits.map((one, k) => ({ ...PLAIN_EDIT, name: `edit ${k}`, ...one }));
  return sessionAt(index).setEdits(whole, (hash) => {
    const array = arrays.get(hash);
    if (array === undefined) throw new Error(`no array ${hash}`);
    return array;
  });
}

function sessionAt(index: number): Session {
  const session = sessions[index];
  if (session === undefined) throw new Error(`no session ${index}`);
  return session;
}

function openedDevice(): GlDevice {
  if (device === undefined) {
    device = openDevice();
    device.onLost(() => events.push("lost"));
    device.onRestored(() => events.push("restored"));
  }
  return device;
}

function decodeFloats(base64: string): Float32Array {
  return new Float32Array(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)).buffer);
}

function encodeBase64(bytes: Uint8Array | Uint8ClampedArray | Float32Array): string {
  const all = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts: string[] = [];
  for (let k = 0; k < all.length; k += 8192) {
    parts.push(String.fromCharCode(...all.subarray(k, k + 8192)));
  }
  return btoa(parts.join(""));
}

async function openSession(url: string): Promise<number> {
  const { plan, uniforms, getWeight } = parsePlan(await (await fetch(url)).arrayBuffer());
  const session = await createSession(openedDevice(), plan, uniforms, getWeight, (p) =>
    progressReports.push(p),
  );
  return sessions.push(session) - 1;
}

/** Draws, and returns the pixels of each canvas. */
function draw(index: number, jobs: readonly Omit<DrawJob, "canvas">[], delivery?: CanvasTransfer) {
  sessionAt(index).canvasTransfer = delivery ?? sessionAt(index).canvasTransfer;
  const drawn = jobs.map((job) => ({ ...job, canvas: document.createElement("canvas") }));
  sessionAt(index).draw(drawn);
  return drawn.map(({ canvas }) => {
    const { width, height } = canvas;
    const pixels = canvas.getContext("2d")?.getImageData(0, 0, width, height).data;
    return { width, height, pixels: encodeBase64(pixels ?? new Uint8Array()) };
  });
}

Object.assign(globalThis, {
  gl: {
    open: openSession,
    probe: () => measureReadSpeed(openedDevice()),
    draw,
    load,
    opened: openedDevice,
    progress: progressReports,
    events,
    floats: decodeFloats,
    base64: encodeBase64,
    the: sessionAt,
    write: (index: number, key: string, data: string) =>
      sessionAt(index).write(key, decodeFloats(data)),
    setWeight: (index: number, texture: number, data: string) =>
      sessionAt(index).setWeight(texture, decodeFloats(data)),
    run: (index: number, section?: string) =>
      sessionAt(index).run(section === undefined ? {} : { section }),
    commit: (index: number) => sessionAt(index).commit(),
    read: async (index: number, key: string) => encodeBase64(await sessionAt(index).read(key)),
    setEdits,
    putArray: (hash: string, data: string) => arrays.set(hash, decodeFloats(data)),
    preview: (
      index: number,
      asked: { edits: Partial<Edit>[]; layer: string; channel: number; image: number } | null,
    ) =>
      sessionAt(index).previewEdits(
        asked && {
          ...asked,
          edits: asked.edits.map((one, k) => ({
            ...PLAIN_EDIT,
            name: `p ${k}`,
            layer: asked.layer,
            ...one,
          })),
        },
      ),
    keys: { before: beforeEditsKey, without: uneditedKey, difference: differenceKey },
    stageKey: intermediateKey,
    bendProgram: (layers: number, reshaped: boolean, transform: string, own?: Partial<Edit>) =>
      bendProgram(layers, reshaped, transform, own && { ...PLAIN_EDIT, ...own }).source,
    blocks: (value: Value, edit: Partial<Edit>) => {
      const stages = [0, 1].map((stage) => bendUniforms(value, { ...PLAIN_EDIT, ...edit }, stage));
      return encodeBase64(packUniformBlocks(stages));
    },
    count: countCalls,
    /** What was counted since this was asked last. */
    counted: () => {
      const now = { ...callCounts };
      for (const name of Object.keys(callCounts)) callCounts[name] = 0;
      return now;
    },
    lose: () => openedDevice().gl.getExtension("WEBGL_lose_context"),
  },
});
