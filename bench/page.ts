// The timing page: every peer gets the same inputs in turns, and every timed output is checked.
import { count, type Counts } from "./count.ts";
import { makePeer, type Peer } from "./peers.ts";

interface Loaded {
  readonly peers: Map<string, Peer>;
  readonly inputs: readonly Float32Array[];
  readonly outputs: readonly Float32Array[];
}

export interface Timing {
  readonly ms: number;
  /** The largest difference from PyTorch's output, relative to the output's largest value. */
  readonly error: number;
  /** The number of values read back. */
  readonly elements: number;
}

/** Each peer's series of calls takes the same time, because processors and their threads must wake up first. */
const SERIES_MS = 60;
const [AT_LEAST, AT_MOST] = [2, 16];
/** A longer call is timed individually. */
const LONG_MS = 100;

let loaded: Loaded | undefined;

async function floats(url: string, parts: number): Promise<Float32Array[]> {
  const all = new Float32Array(await (await fetch(url)).arrayBuffer());
  const size = all.length / parts;
  return Array.from({ length: parts }, (_, k) => all.slice(k * size, (k + 1) * size));
}

function difference(found: Float32Array, expected: Float32Array): number {
  if (found.length !== expected.length) return Number.POSITIVE_INFINITY;
  let worst = 0;
  let largest = 0;
  for (const [k, value] of expected.entries()) {
    const distance = Math.abs((found[k] as number) - value);
    // A NaN counts as infinitely wrong.
    worst = distance <= worst ? worst : Number.isNaN(distance) ? Number.POSITIVE_INFINITY : distance;
    largest = Math.max(largest, Math.abs(value));
  }
  return worst / largest;
}

function the(): Loaded {
  if (loaded === undefined) throw new Error("open() comes first");
  return loaded;
}

function peer(name: string): Peer {
  const found = the().peers.get(name);
  if (found === undefined) throw new Error(`${name} was not started`);
  return found;
}

async function timed(name: string, turn: number, all: boolean): Promise<Timing> {
  const { inputs, outputs } = the();
  const k = turn % inputs.length;
  const runner = peer(name);
  const input = runner.prepare?.(inputs[k] as Float32Array) ?? (inputs[k] as Float32Array);
  const before = performance.now();
  const found = all ? await runner.runAll(input) : [await runner.run(input)];
  const ms = performance.now() - before;
  const output = found.at(-1) as Float32Array;
  const restored = runner.restore?.(output) ?? output;
  const elements = found.reduce((sum, array) => sum + array.length, 0);
  return { ms, error: difference(restored, outputs[k] as Float32Array), elements };
}

/**
 * Times a few calls in a row, each with another input. An untimed call first absorbs the previous peer's garbage and
 * cache contents; for long calls this makes no difference.
 */
async function series(name: string, turn: number, all: boolean): Promise<Timing[]> {
  (globalThis as { gc?: () => void }).gc?.();
  const before = await timed(name, turn, all);
  if (before.ms > LONG_MS) return [before];
  const timings: Timing[] = [];
  let ms = 0;
  while (timings.length < AT_MOST && (timings.length < AT_LEAST || ms < SERIES_MS)) {
    const found = await timed(name, turn + 1 + timings.length, all);
    timings.push(found);
    ms += found.ms;
  }
  return timings;
}

const bench = {
  async open(ring: number): Promise<void> {
    bench.close();
    loaded = {
      peers: new Map(),
      inputs: await floats("/model/inputs.bin", ring),
      outputs: await floats("/model/outputs.bin", ring),
    };
  },

  /** The first run, including shader compilation and weight upload but not fetching files. */
  async start(name: string): Promise<Timing> {
    const made = await makePeer(name);
    const before = performance.now();
    await made.start();
    the().peers.set(name, made);
    const first = await timed(name, 0, false);
    return { ...first, ms: performance.now() - before };
  },

  run: (name: string, turn: number) => series(name, turn, false),
  runAll: (name: string, turn: number) => series(name, turn, true),

  async counts(name: string): Promise<Counts> {
    return count(async () => {
      await timed(name, 1, false);
    });
  },

  stop(name: string): void {
    loaded?.peers.get(name)?.close();
    loaded?.peers.delete(name);
  },

  close(): void {
    for (const name of [...(loaded?.peers.keys() ?? [])]) bench.stop(name);
    loaded = undefined;
  },
};

Object.assign(window, { bench });
