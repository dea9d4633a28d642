// nbglcnn and its peers behind one interface. Each peer is written as its documentation advises.
import { load } from "/runtime.js";
import { makeDrawn } from "./drawn.ts";
import { makeOrt } from "./ort.ts";
import { makeTensorFlow } from "./tensorflow.ts";

export interface Peer {
  /** Compiles and uploads everything possible before the first input. */
  start(): Promise<void>;
  run(input: Float32Array): Promise<Float32Array>;
  /** All tensors of the exported network as arrays, the input first and the output last. */
  runAll(input: Float32Array): Promise<Float32Array[]>;
  close(): void;
  /** Reorders the elements of the input or output; not timed. */
  prepare?(input: Float32Array): Float32Array;
  restore?(output: Float32Array): Float32Array;
}

async function nbglcnn(plan: string): Promise<Peer> {
  const fetched = async (name: string) => (await fetch(`/model/${name}.plan`)).arrayBuffer();
  const file = await fetched(plan);
  let session: Awaited<ReturnType<typeof load>> | undefined;
  /** The network in the form that all peers get, with BatchNorm folded. */
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
