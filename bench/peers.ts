// nbglcnn and its peers behind one interface. Each peer is written as its documentation advises.
import { load } from "/runtime.js";
import { makeDrawn } from "./drawn.ts";
import { makeOrt } from "./ort.ts";
import { makeTensorFlow } from "./tensorflow.ts";

export interface Peer {
  /** Compiles and uploads what can be before the first input is there. */
  start(): Promise<void>;
  run(input: Float32Array): Promise<Float32Array>;
  /** All tensors of the exported network, its input first, its output last, each in an array. */
  runAll(input: Float32Array): Promise<Float32Array[]>;
  close(): void;
  /** Other orders of the same numbers, made before and after the clock runs. */
  prepare?(input: Float32Array): Float32Array;
  restore?(output: Float32Array): Float32Array;
}

async function nbglcnn(plan: string): Promise<Peer> {
  const fetched = async (name: string) => (await fetch(`/model/${name}.plan`)).arrayBuffer();
  const file = await fetched(plan);
  let session: Awaited<ReturnType<typeof load>> | undefined;
  /** Of the network that all peers get, in which BatchNorm is folded. */
  let nodes: Awaited<ReturnType<typeof load>> | undefined;
  return {
    async start() {
      session = await load(file);
    },
    run: async (input) => (await session?.run(input)) as Float32Array,
    async runAll(input) {
      nodes ??= await load(await fetched("nodes"));
      await nodes.run(input);
      const found: Float32Array[] = [];
      for (const name of nodes.values) found.push(await nodes.read(name));
      return found;
    },
    close() {
      session?.close();
      nodes?.close();
    },
  };
}

export async function makePeer(name: string): Promise<Peer> {
  if (name === "nbglcnn") return nbglcnn("fused");
  if (name === "nbglcnn all") return nbglcnn("all");
  if (name === "nbglcnn drawn") return makeDrawn();
  if (name.startsWith("tfjs ")) return makeTensorFlow(name.slice(5));
  if (name.startsWith("ort ")) return makeOrt(name.slice(4));
  throw new Error(`no peer is called ${name}`);
}
