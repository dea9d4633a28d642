// The page that times training: every peer begins with the same weights and gets the same batches.
import { openDevice } from "../js/src/webgl/gl_device.ts";
import { parsePlan } from "../js/src/plan/plan_file.ts";
import { createSession } from "../js/src/webgl/session.ts";
import type { Session } from "../js/src/plan/runtime.ts";
import { makeConvNet } from "./convnet.ts";
import { type Counts, count } from "./count.ts";
import { makeTensorFlowTrainer } from "./tensorflow_training.ts";

/** A layer of torch.nn; its weight, and its bias behind it, begin at `offset` among all weights. */
export interface Layer {
  readonly kind: string;
  readonly weight: number[];
  readonly offset: number;
  readonly stride: number;
  readonly padding: number;
}

export interface Network {
  readonly shape: [batch: number, channels: number, height: number, width: number];
  readonly loss: "mse" | "cross_entropy";
  readonly rate: number;
  readonly layers: readonly Layer[];
  /** Names of our Plan's inputs. */
  readonly keys: { readonly input: string; readonly target: string; readonly rate: string };
}

export interface Batch {
  readonly input: Float32Array;
  /** Numbers of classes where the loss is the cross entropy. */
  readonly target: Float32Array;
}

export interface Trainer {
  /** Compiles and uploads what can be before the first batch is there. */
  start(): Promise<void>;
  /** A step for each batch; the last one's loss, when it is there. Ours run between frames where it isn't `urgent`. */
  train(batches: readonly Batch[], urgent?: boolean): Promise<number>;
  close(): void;
}

interface Peer {
  readonly trainer: Trainer;
  done: number;
}

export interface Timing {
  /** Of a step. */
  readonly ms: number;
  /** The loss of the last step, whose number counts from 0. */
  readonly loss: number;
  readonly step: number;
}

/** Of steps between frames: milliseconds of one while nothing else is drawn, and while the page paints, and how often. */
export interface Painted {
  readonly free: number;
  readonly ms: number;
  readonly frames: number;
}

/** So long steps run between frames, and on a canvas of so many pixels a side. */
const PAINTED_MS = 4000;
const SIDE = 600;

/** A series ends with the loss of its last step: so many steps take about as long for every peer. */
const SERIES_MS = 250;
const [AT_LEAST, AT_MOST] = [2, 16];

let network: Network;
let weights: Float32Array;
let batches: readonly Batch[] = [];
const peers = new Map<string, Peer>();

async function bytes(name: string): Promise<ArrayBuffer> {
  return (await fetch(`/model/${name}`)).arrayBuffer();
}

async function nbglcnn(): Promise<Trainer> {
  const { plan, uniforms, weight } = parsePlan(await bytes("train.plan"));
  const device = openDevice();
  let session: Session | undefined;
  return {
    async start() {
      session = await createSession(device, plan, uniforms, weight);
    },
    async train(given, urgent = true) {
      if (session === undefined) throw new Error("start() comes first");
      const { keys, rate } = network;
      for (const { input, target } of given) {
        session.commit(); // what the step before has learned; before the first there is nothing
        session.write(keys.input, input);
        session.write(keys.target, target);
        session.write(keys.rate, new Float32Array([rate]));
        await session.run({ section: "train", urgent });
      }
      return (await session.read("loss"))[0] as number;
    },
    close() {
      session?.dispose();
      device.dispose();
    },
  };
}

async function makeTrainer(name: string): Promise<Trainer> {
  if (name === "nbglcnn") return nbglcnn();
  if (name === "tfjs webgl") return makeTensorFlowTrainer(network, weights);
  if (name === "convnetjs") return makeConvNet(network, weights);
  throw new Error(`no peer is called ${name}`);
}

async function train(peer: Peer, steps: number, urgent = true): Promise<Timing> {
  const given = Array.from(
    { length: steps },
    (_, k) => batches[(peer.done + k) % batches.length] as Batch,
  );
  const before = performance.now();
  const loss = await peer.trainer.train(given, urgent);
  const ms = (performance.now() - before) / steps;
  peer.done += steps;
  return { ms, loss, step: peer.done - 1 };
}

/** Steps as the page's loop runs them, for a while: milliseconds of one. */
async function between(peer: Peer): Promise<number> {
  await train(peer, 1, false);
  const before = performance.now();
  let steps = 0;
  for (; performance.now() - before < PAINTED_MS; steps++) await train(peer, 1, false);
  return (performance.now() - before) / steps;
}

function the(name: string): Peer {
  const found = peers.get(name);
  if (found === undefined) throw new Error(`${name} was not started`);
  return found;
}

const bench = {
  async open(): Promise<void> {
    network = await (await fetch("/model/network.json")).json();
    weights = new Float32Array(await bytes("weights.bin"));
    const [inputs, targets] = await Promise.all(["inputs.bin", "targets.bin"].map(bytes));
    const size = network.shape.reduce((a, b) => a * b);
    const all = new Float32Array(inputs as ArrayBuffer);
    const wanted = new Float32Array(targets as ArrayBuffer);
    const ring = all.length / size;
    const each = wanted.length / ring;
    batches = Array.from({ length: ring }, (_, k) => ({
      input: all.slice(k * size, (k + 1) * size),
      target: wanted.slice(k * each, (k + 1) * each),
    }));
  },

  /** The first step: shaders compiled, weights uploaded; fetching files is not counted. */
  async start(name: string): Promise<Timing> {
    const peer = { trainer: await makeTrainer(name), done: 0 };
    const before = performance.now();
    await peer.trainer.start();
    peers.set(name, peer);
    const first = await train(peer, 1);
    return { ...first, ms: performance.now() - before };
  },

  /** Steps in a row, behind one that doesn't count: what the peer before left behind is paid by that. */
  async run(name: string): Promise<Timing[]> {
    (globalThis as { gc?: () => void }).gc?.();
    const peer = the(name);
    const before = await train(peer, 1);
    const steps = Math.min(AT_MOST, Math.max(AT_LEAST, Math.round(SERIES_MS / before.ms)));
    return [await train(peer, steps)];
  },

  /** Alone, and while a canvas is painted anew in every frame. */
  async painted(name: string): Promise<Painted> {
    const peer = the(name);
    const free = await between(peer);
    const canvas = document.body.appendChild(document.createElement("canvas"));
    canvas.width = canvas.height = SIDE;
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    let frames = 0;
    let next = 0;
    const paint = () => {
      frames += 1;
      context.fillStyle = `hsl(${frames % 360} 80% 50%)`;
      context.fillRect(0, 0, SIDE, SIDE);
      next = requestAnimationFrame(paint);
    };
    paint();
    const before = performance.now();
    const ms = await between(peer);
    cancelAnimationFrame(next);
    canvas.remove();
    return { free, ms, frames: (frames * 1000) / (performance.now() - before) };
  },

  counts: (name: string): Promise<Counts> =>
    count(async () => {
      await train(the(name), 1);
    }),

  close(): void {
    for (const { trainer } of peers.values()) trainer.close();
    peers.clear();
  },
};

Object.assign(window, { bench });
