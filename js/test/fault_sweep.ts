// What tests/page/test_page_fault_sweep.py calls: a session's whole life with one fault at the n-th call of WebGL.

import { parsePlan } from "../src/plan/plan_file.ts";
import { DeviceUnavailable, type Session } from "../src/plan/runtime.ts";
import { type GlDevice, openDevice } from "../src/webgl/gl_device.ts";
import { createSession } from "../src/webgl/session.ts";

type FaultKind = "loss" | "link" | "memory";
type StepOutcome = readonly [
  name: string,
  outcome: { readonly value?: string; readonly error?: string },
];

interface FaultResult {
  /** Whether the n-th call was reached. */
  readonly wasReached: boolean;
  readonly steps: readonly StepOutcome[];
  /** The output afterwards, when the fault is over. */
  readonly finalOutput: string;
  /** Objects that nobody freed. */
  readonly leakedObjects: readonly string[];
  readonly alive: number;
  readonly unhandled: readonly string[];
}

interface SessionInput {
  readonly plan: ArrayBuffer;
  readonly x: Float32Array;
  /** With statistics a life has half as many calls again. */
  readonly statistics: boolean;
}

/** Polls come as often as the device is slow: of those in a row only the first counts. */
const POLLING_CALLS = new Set(["isContextLost", "getSyncParameter"]);
const COMPLETION_STATUS_KHR = 0x91b1;

const { prototype } = WebGL2RenderingContext;
const originalMethods = new Map<string, (...given: unknown[]) => unknown>();
const unhandled: string[] = [];
const liveObjects = new Map<unknown, string>();
let fault: { readonly kind: FaultKind; readonly n: number } | undefined;
let calls = 0;
let struck = false;
let refused = false;
let polled = new Set<string>();
/** A lost context gives no extension any more. */
let loser: WEBGL_lose_context | null = null;

addEventListener("unhandledrejection", (event) => unhandled.push(String(event.reason)));

/** Whether this call is one to be counted for the fault that is on. */
function isCounted(name: string, given: readonly unknown[]): boolean {
  if (fault?.kind === "link") {
    return name === "getProgramParameter" && given[1] === prototype.LINK_STATUS;
  }
  if (fault?.kind === "memory") {
    const usage = name === "bufferData" ? given[2] : undefined;
    return name === "texStorage3D" || usage === prototype.STATIC_DRAW;
  }
  const poll = POLLING_CALLS.has(name) || given[1] === COMPLETION_STATUS_KHR;
  if (!poll) polled = new Set();
  const first = !polled.has(name);
  polled.add(name);
  return !poll || first;
}

function wrapMethods(): void {
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
    if (typeof value !== "function") continue;
    originalMethods.set(name, value);
    Object.defineProperty(prototype, name, {
      configurable: true,
      value(this: WebGL2RenderingContext, ...given: unknown[]) {
        if (fault !== undefined && isCounted(name, given)) {
          calls += 1;
          if (calls === fault.n) {
            struck = true;
            if (fault.kind === "link") return false;
            if (fault.kind === "memory") {
              refused = true;
              return undefined;
            }
            loser = originalMethods
              .get("getExtension")
              ?.call(this, "WEBGL_lose_context") as typeof loser;
            loser?.loseContext();
            liveObjects.clear(); // gone with the context
          }
        }
        if (name === "getError" && refused) {
          refused = false;
          return this.OUT_OF_MEMORY;
        }
        const result = value.apply(this, given);
        trackObject(this, name, given, result);
        return result;
      },
    });
  }
}

function trackObject(
  gl: WebGL2RenderingContext,
  name: string,
  given: readonly unknown[],
  result: unknown,
): void {
  if (/^create|^fenceSync/.test(name) && result !== null) {
    if (originalMethods.get("isContextLost")?.call(gl) === false) liveObjects.set(result, name);
  } else if (name.startsWith("delete")) liveObjects.delete(given[0]);
}

function formatFloats(data: Float32Array): string {
  return new Uint32Array(data.buffer, data.byteOffset, data.length).join();
}

function formatPixels(canvas: HTMLCanvasElement): string {
  const drawn = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data;
  return `${canvas.width}×${canvas.height} ${drawn?.join() ?? ""}`;
}

async function openSession(device: GlDevice, bytes: ArrayBuffer): Promise<Session> {
  const { plan, uniforms, getWeight } = parsePlan(bytes);
  return createSession(device, plan, uniforms, getWeight);
}

/** Load, run, draw, read, perhaps statistics; the same with another input and a picture; each with what came of it. */
async function runSessionLife(device: GlDevice, { plan, x, statistics }: SessionInput) {
  const steps: StepOutcome[] = [];
  const step = async (name: string, work: () => Promise<string> | string): Promise<void> => {
    const at = steps.push([name, {}]) - 1;
    try {
      steps[at] = [name, { value: await work() }];
    } catch (error) {
      steps[at] = [name, { error: error instanceof Error ? error.name : String(error) }];
    }
  };
  let session: Session | undefined;
  await step("load", async () => {
    session = await openSession(device, plan);
    return "loaded";
  });
  const s = session;
  if (s === undefined) return { session, steps };
  const output = s.plan.outputs[0] ?? "";
  for (const scale of [1, 2]) {
    s.write(
      s.plan.inputs[0]?.key ?? "",
      x.map((v) => v * scale),
    );
    await step("run", () => s.run().then(() => "ran"));
    const canvas = document.createElement("canvas");
    const before = formatPixels(canvas);
    await step("draw", () => {
      s.draw([
        {
          key: output, canvas, image: 0, channels: [0, 1], columns: 2, gap: 1, scale: 1,
          colormap: "signed", theme: "light", range: { mode: "layer" }, drawMode: "maps",
        },
      ]); // biome-ignore format: a job
      return formatPixels(canvas) === before ? "nothing" : formatPixels(canvas);
    });
    await step("read", () => s.read(output).then(formatFloats));
    // Of all values at once: what is wrong with one is no excuse for another's numbers.
    const asked = statistics ? s.plan.values.filter(({ kind }) => kind === "layer") : [];
    await Promise.all(
      asked.map(({ key }) =>
        step(`statistics of ${key}`, async () => JSON.stringify((await s.statistics(key)).layer)),
      ),
    );
  }
  const picture = new ImageData(
    new Uint8ClampedArray(8 * 7 * 4).map((_, k) => k * 37),
    8,
    7,
  );
  s.feed(s.plan.inputs[0]?.key ?? "", picture, true);
  // Where it cannot be taken, what was there stays, and the run says so.
  await step("picture", async () => {
    await s.run();
    return formatFloats(await s.read(output));
  });
  return { session, steps };
}

/** Gives a lost context back, once the page has heard of the loss: before that it is not allowed. */
async function releaseDevice(device: GlDevice): Promise<void> {
  const { gl } = device;
  const wait = () => new Promise((resolve) => setTimeout(resolve, 2));
  if (!gl.isContextLost()) return;
  while (!device.isLost) await wait();
  loser?.restoreContext();
  while (device.isLost) await wait();
}

async function runWithFault(
  device: GlDevice,
  given: SessionInput,
  kind: FaultKind,
  n: number,
): Promise<FaultResult> {
  fault = { kind, n };
  [calls, struck, refused, polled] = [0, false, false, new Set()];
  const { session: first, steps } = await runSessionLife(device, given);
  fault = undefined;
  refused = false;
  await releaseDevice(device);
  const broken = kind !== "loss" && steps.some(([, { error }]) => error !== undefined);
  if (broken) first?.dispose();
  const session = (broken ? undefined : first) ?? (await openSession(device, given.plan));
  session.write(session.plan.inputs[0]?.key ?? "", given.x);
  const finalOutput = formatFloats(await session.read(session.plan.outputs[0] ?? ""));
  session.dispose();
  await new Promise((resolve) => setTimeout(resolve)); // whoever is told that nobody listens to
  const alive = Object.values(device.liveObjects).reduce((a, b) => a + b, 0);
  const found = {
    wasReached: struck,
    steps,
    finalOutput,
    leakedObjects: [...liveObjects.values()],
    alive,
  };
  liveObjects.clear();
  return { ...found, unhandled: unhandled.splice(0) };
}

let device: GlDevice | undefined;

/** What comes of a fault at each of these calls, from 1; 0 is none. */
async function sweep(
  url: string,
  x: readonly number[],
  statistics: boolean,
  kind: FaultKind,
  calls: readonly number[],
): Promise<FaultResult[]> {
  const given = {
    plan: await (await fetch(url)).arrayBuffer(),
    x: new Float32Array(x),
    statistics,
  };
  if (device === undefined) {
    device = openDevice();
    wrapMethods();
    await runWithFault(device, given, kind, 0); // the first time in a page takes other ways: it measures
  }
  const found: FaultResult[] = [];
  for (const n of calls) found.push(await runWithFault(device, given, kind, n));
  return found;
}

/** The same for opening a device: each n has a context of its own. */
function sweepContextFaults(): (readonly [struck: boolean, outcome: string])[] {
  if (originalMethods.size === 0) wrapMethods();
  const found: (readonly [boolean, string])[] = [];
  for (let n = 1; found.at(-1)?.[0] !== false; n++) {
    fault = { kind: "loss", n };
    [calls, struck, polled] = [0, false, new Set()];
    let outcome: string;
    try {
      const opened = openDevice();
      fault = undefined;
      outcome = `${JSON.stringify(opened.capabilities)} ${opened.gl.isContextLost()}`;
      opened.dispose();
    } catch (error) {
      outcome = error instanceof DeviceUnavailable ? error.reason : String(error);
    }
    fault = undefined;
    found.push([struck, outcome]);
  }
  return found;
}

Object.assign(globalThis, { sweep, sweepContextFaults });
