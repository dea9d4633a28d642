// The session alone, for any web page: a Plan file in, arrays in, arrays out. No dependency.
//
//   import { load } from "./runtime.js";
//   const session = await load(await (await fetch("model.plan")).arrayBuffer());
//   const output = await session.run(new Float32Array(1 * 3 * 224 * 224));
import { type GlDevice, openDevice } from "./gl/device.ts";
import { parsePlan } from "./gl/format.ts";
import { Runner } from "./gl/runner.ts";
import { type Device, PlanError, type Precision, type Progress } from "./gl/types.ts";

export * from "./gl/types.ts";
export { openDevice };

/** One array by name. */
export type Arrays = Readonly<Record<string, Float32Array>>;

export interface LoadedPlan {
  /** Shapes of inputs and outputs by name, in order; arrays are row-major. */
  readonly inputs: readonly (readonly [string, readonly number[]])[];
  readonly outputs: readonly (readonly [string, readonly number[]])[];
  /** Names that `read` takes: every value the Plan observes. */
  readonly values: readonly string[];
  /** What values are stored in: float16 also where this device draws nothing better. */
  readonly precision: Precision;
  /** Bytes that it takes on the device. */
  readonly bytes: number;
  /** Runs the network: the output's array, or all of them by name when there are several. */
  run(input: Float32Array | Arrays): Promise<Float32Array | Arrays>;
  /** A value of the last run, or a parameter. */
  read(name: string): Promise<Float32Array>;
  /** Frees everything on the device; the last one to go closes the device too. */
  close(): void;
}

export interface LoadOptions {
  readonly onProgress?: (progress: Progress) => void;
  /** A device of the page's own, which stays open; by default all Plans share one. */
  readonly device?: Device;
}

let shared: Device | undefined;
let users = 0;

/** Reads a Plan file and makes it ready to run; throws PlanError, ShaderError or DeviceUnavailable. */
export async function load(
  file: ArrayBuffer | Uint8Array,
  options: LoadOptions = {},
): Promise<LoadedPlan> {
  const { plan, uniforms, weight } = parsePlan(file);
  const device = options.device ?? borrow();
  const giveBack = options.device === undefined ? release : () => undefined;
  let runner: Runner;
  try {
    runner = await Runner.make(device as GlDevice, plan, uniforms, weight, options.onProgress);
  } catch (error) {
    giveBack();
    throw error;
  }
  const shapeOf = (key: string) => [key, runner.find(key).shape] as const;
  let closed = false;
  return {
    inputs: plan.inputs.map((input) => [input.key, input.shape]),
    outputs: plan.outputs.map(shapeOf),
    values: plan.values.map((value) => value.key),
    precision: device.capabilities.precision === "float16" ? "float16" : plan.precision,
    bytes: runner.bytes,
    async run(input) {
      for (const [name, array] of named(input, plan.inputs[0]?.key, plan.inputs.length)) {
        runner.write(name, array);
      }
      const outputs: [string, Float32Array][] = [];
      for (const key of plan.outputs) outputs.push([key, await runner.read(key)]);
      const [only] = outputs;
      if (outputs.length === 1 && only !== undefined) return only[1];
      const result: Record<string, Float32Array> = Object.create(null); // names come from a file
      for (const [key, array] of outputs) result[key] = array;
      return result;
    },
    read: (name) => runner.read(name),
    close() {
      if (closed) return;
      closed = true;
      runner.dispose();
      giveBack();
    },
  };
}

function named(
  input: Float32Array | Arrays,
  first: string | undefined,
  count: number,
): [string, Float32Array][] {
  if (!(input instanceof Float32Array)) return Object.entries(input);
  if (first === undefined || count !== 1) {
    throw new PlanError(`this network has ${count} inputs: give { name: array }`);
  }
  return [[first, input]];
}

function borrow(): Device {
  shared ??= openDevice();
  users += 1;
  return shared;
}

function release(): void {
  users -= 1;
  if (users > 0) return;
  shared?.dispose();
  shared = undefined;
}
