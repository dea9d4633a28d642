// The session alone, for any web page: a Plan file in, arrays in, arrays out. No dependency.
//
//   import { load } from "./runtime.js";
//   const session = await load(await (await fetch("model.plan")).arrayBuffer());
//   const output = await session.run(new Float32Array(1 * 3 * 224 * 224));
//   const same = await session.run(document.querySelector("canvas"));
import {
  type Arrays,
  type InputData,
  isPicture,
  namedInputs,
  singleOrNamed,
} from "./named_arrays.ts";
import { parsePlan } from "./plan/plan_file.ts";
import { requiredInputs } from "./plan/required_inputs.ts";
import type { Device, Precision, Progress } from "./plan/runtime.ts";
import { Sections } from "./plan/sections.ts";
import { type GlDevice, openDevice } from "./webgl/gl_device.ts";
import { emptyPictureError, pictureSize } from "./webgl/picture_upload.ts";
import { readValue } from "./webgl/read_values.ts";
import { Runner } from "./webgl/runner.ts";

export type { Arrays, InputData } from "./named_arrays.ts";
export * from "./plan/runtime.ts";
export { openDevice };

export interface LoadedPlan {
  /** Shapes of inputs and outputs by name, in order; arrays are row-major. */
  readonly inputs: readonly (readonly [string, readonly number[]])[];
  readonly outputs: readonly (readonly [string, readonly number[]])[];
  /** Names that `read` takes: every value the Plan observes. */
  readonly values: readonly string[];
  /** Parts of the Plan that `run` can run by themselves. */
  readonly sections: readonly string[];
  /** What values are stored in: float16 also where this device draws nothing better. */
  readonly precision: Precision;
  /** Bytes that it takes on the device. */
  readonly bytes: number;
  /**
   * Runs the network: the output's array, or all of them by name when there are several. Inputs that are left out are
   * those of the run before. A canvas, image, video, ImageBitmap or ImageData of any size becomes the numbers of an input
   * of 1, 3 or 4 channels as the Plan says of it, for each example of a batch; PlanError where nothing is to be seen of
   * it yet, where it is of another origin, and where the input takes no pictures. With `section` only what that needs is run, and the outputs that it computes are given.
   */
  run(
    input: InputData | Readonly<Record<string, InputData>>,
    section?: string,
  ): Promise<Float32Array | Arrays>;
  /**
   * What the last run computed is the state that the next one begins with, in a Plan that has state. Without a commit a
   * run changes nothing. A lost graphics context takes the state: it begins anew.
   */
  commit(): void;
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

let sharedDevice: Device | undefined;
let deviceUsers = 0;

/** Reads a Plan file and makes it ready to run; throws PlanError, ShaderError or DeviceUnavailable. */
export async function load(
  file: ArrayBuffer | Uint8Array,
  options: LoadOptions = {},
): Promise<LoadedPlan> {
  const { plan, uniforms, weight } = parsePlan(file);
  const device = options.device ?? acquireDevice();
  const giveBack = options.device === undefined ? releaseDevice : () => undefined;
  let runner: Runner;
  try {
    runner = await Runner.create(device as GlDevice, plan, uniforms, weight, options.onProgress);
  } catch (error) {
    giveBack();
    throw error;
  }
  const sections = new Sections(plan);
  const shapeOf = (key: string) => [key, runner.findValue(key).shape] as const;
  let closed = false;
  return {
    inputs: plan.inputs.map((input) => [input.key, input.shape]),
    outputs: plan.outputs.map(shapeOf),
    values: plan.values.map((value) => value.key),
    sections: plan.sections.map((section) => section.name),
    precision: device.capabilities.precision === "float16" ? "float16" : plan.precision,
    bytes: runner.bytes,
    async run(input, section) {
      const given = namedInputs(input, requiredInputs(plan));
      for (const [name, one] of given) {
        if (!isPicture(one)) runner.write(name, one);
        else if (Math.min(...pictureSize(one)) === 0) throw emptyPictureError(name);
        else runner.feed(name, one, false);
      }
      // After a write reading runs what it needs; nothing was written where the state alone is another.
      if (section !== undefined) await runner.run({ urgent: true, section });
      else if (given.length === 0) await runner.run({ urgent: true });
      const outputs: [string, Float32Array][] = [];
      for (const key of plan.outputs) {
        const { texture } = runner.findValue(key);
        if (!sections.computes(texture, sections.select(section))) continue;
        outputs.push([key, await readValue(runner, key)]);
      }
      return singleOrNamed(outputs);
    },
    read: (name) => readValue(runner, name),
    commit: () => runner.commit(),
    close() {
      if (closed) return;
      closed = true;
      runner.dispose();
      giveBack();
    },
  };
}

function acquireDevice(): Device {
  sharedDevice ??= openDevice();
  deviceUsers += 1;
  return sharedDevice;
}

function releaseDevice(): void {
  deviceUsers -= 1;
  if (deviceUsers > 0) return;
  sharedDevice?.dispose();
  sharedDevice = undefined;
}
