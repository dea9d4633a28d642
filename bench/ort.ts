// ONNX Runtime Web: WebAssembly with one thread (a page without cross-origin isolation), and WebGL.
import * as wasm from "onnxruntime-web/wasm";
import * as webgl from "onnxruntime-web/webgl";
import type { Peer } from "./peers.ts";

export async function makeOrt(provider: string): Promise<Peer> {
  const ort = (provider === "webgl" ? webgl : wasm) as typeof wasm;
  wasm.env.wasm.wasmPaths = "/ort/";
  wasm.env.wasm.numThreads = 1;
  const file = new Uint8Array(await (await fetch("/model/onnx")).arrayBuffer());
  const { shape } = await (await fetch("/model/nodes.json")).json();
  let session: Awaited<ReturnType<typeof ort.InferenceSession.create>>;
  const run = async (input: Float32Array) => {
    const tensor = new ort.Tensor("float32", input, shape);
    const found = await session.run({ [session.inputNames[0] as string]: tensor });
    const output = found[session.outputNames[0] as string];
    return (await output?.getData()) as Float32Array;
  };
  return {
    async start() {
      session = await ort.InferenceSession.create(file, {
        executionProviders: [provider],
        graphOptimizationLevel: "all",
      });
    },
    run,
    runAll: () => Promise.reject(new Error("gives no intermediate values")),
    close: () => void session?.release(),
  };
}
