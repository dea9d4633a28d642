// The page that times training: every peer starts with the same weights and gets the same batches.
import { openDevice } from "../js/src/webgl/gl_device.ts";
import { parsePlan } from "../js/src/plan/plan_file.ts";
import { createSession } from "../js/src/webgl/session.ts";
import type { Session } from "../js/src/plan/runtime.ts";
import { makeConvNet } from "./convnet.ts";
import { type Counts, count } from "./count.ts";
import { makeTensorFlowTrainer } from "./tensorflow_training.ts";

/** A layer of torch.nn; its weight starts at `offset` in the array of all weights, followed by its bias. */
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
  /** Class indices if the loss is cross entropy. */
  readonly target: Float32Array;
}

export interface Trainer {
  /** Compiles and uploads everything possible before the first batch. */
  start(): Promise<void>;
  /** Runs a step for each batch and resolves to the last step's loss. Our steps run between frames unless `urgent`. */
  train(batches: readonly Batch[], urgent?: boolean): Promise<number>;
  close(): void;
}

interface Peer {
  readonly trainer: Trainer;
  done: number;
}

export interface Timing {
  /** Milliseconds per step. */
  readonly ms: number;
  /** The loss of the last step; `step` is its number, counting from 0. */
  readonly loss: number;
  readonly step: number;
}

/**
 * Steps between frames: milliseconds per step while nothing else is drawn (`free`) and while the page paints (`ms`),
 * and the frames per second.
 */
export interface Painted {
  readonly free: number;
  readonly ms: number;
  readonly frames: number;
}

/** The duration for which steps run between frames, and the side of the painted canvas in pixels. */
const PAINTED_MS = 4000;
const SIDE = 600;

/** A series ends by reading the loss of its last step; the number of steps is chosen for about equal time per peer. */
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
  const { plan, uniforms, getWeight } = parsePlan(await bytes("train.plan"));
  const device = openDevice();
  let session: Session | undefined;
  return {
    async start() {
      session = await createSession(device, plan, uniforms, getWeight);
    },
    async train(given, urgent = true) {
      if (session === undefined) throw new Error("start() comes first");
      const { keys, rate } = network;
      for (const { input, target } of given) {
        session.commit(); // keeps the previous step's results; a no-op before the first
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

/** Runs steps like the page's training loop for a while; returns the milliseconds per step. */
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

  /** The first step, including shader compilation and weight upload but not fetching files. */
  async start(name: string): Promise<Timing> {
    const peer = { trainer: await makeTrainer(name), done: 0 };
    const before = performance.now();
    await peer.trainer.start();
    peers.set(name, peer);
    const first = await train(peer, 1);
    return { ...first, ms: performance.now() - before };
  },

  /** Times steps in a row, after an untimed one that absorbs the previous peer's leftovers. */
  async run(name: string): Promise<Timing[]> {
    (globalThis as { gc?: () => void }).gc?.();
    const peer = the(name);
    const before = await train(peer, 1);
    const steps = Math.min(AT_MOST, Math.max(AT_LEAST, Math.round(SERIES_MS / before.ms)));
    return [await train(peer, steps)];
  },

  /** Measures steps alone, and while a canvas is repainted in every frame. */
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
