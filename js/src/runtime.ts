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
import { openPlan } from "./plan/plan_file.ts";
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
  /** Names and shapes of inputs and outputs, in order; arrays are row-major. */
  readonly inputs: readonly (readonly [string, readonly number[]])[];
  readonly outputs: readonly (readonly [string, readonly number[]])[];
  /** Names that `read` takes: every value the Plan observes. */
  readonly values: readonly string[];
  /** Sections of the Plan that `run` can run separately. */
  readonly sections: readonly string[];
  /** The storage precision of values: float16 also if this device cannot render a higher one. */
  readonly precision: Precision;
  /** Bytes of textures and buffers on the device. */
  readonly bytes: number;
  /**
   * Run the network. Resolves with the output's array, or with all outputs by name if there are several. Omitted inputs
   * keep their values from the previous run. An input of 1, 3 or 4 channels accepts a canvas, image, video, ImageBitmap
   * or ImageData of any size, which is converted as the Plan specifies, for each example of a batch. Throws PlanError
   * if the picture has no content yet, if it is cross-origin, or if the input takes no pictures. With `section`, only
   * the passes it needs run, and only the outputs that they compute are returned.
   */
  run(
    input: InputData | Readonly<Record<string, InputData>>,
    section?: string,
  ): Promise<Float32Array | Arrays>;
  /**
   * Make the result of the last run the state that the next run starts from, if the Plan has state. Without a commit a
   * run changes nothing. A context loss resets the state to its initial value.
   */
  commit(): void;
  /** A value of the last run, or a parameter. */
  read(name: string): Promise<Float32Array>;
  /** Free all resources on the device; closing the last session also closes the shared device. */
  close(): void;
}

export interface LoadOptions {
  readonly onProgress?: (progress: Progress) => void;
  /** The caller's own device, which stays open; by default all Plans share one. */
  readonly device?: Device;
}

let sharedDevice: Device | undefined;
let deviceUsers = 0;

/** Load a Plan file and prepare it to run; throws PlanError, ShaderError or DeviceUnavailable. */
export async function load(
  file: ArrayBuffer | Uint8Array,
  options: LoadOptions = {},
): Promise<LoadedPlan> {
  const { plan, uniforms, getWeight, whenVerified } = openPlan(file);
  const device = options.device ?? acquireDevice();
  const giveBack = options.device === undefined ? releaseDevice : () => undefined;
  const create = async (): Promise<Runner> => {
    const made = Runner.create(device as GlDevice, plan, uniforms, getWeight, options.onProgress);
    const [runner] = await Promise.allSettled([made, whenVerified]);
    try {
      await whenVerified; // explains other errors
    } catch (error) {
      if (runner.status === "fulfilled") runner.value.dispose();
      throw error;
    }
    return await made;
  };
  let runner: Runner;
  try {
    runner = await create();
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
      // After a write, reading runs the network. Without a write, only the state may have changed: run explicitly.
      if (section !== undefined) await runner.run({ urgent: true, section });
      else if (given.length === 0) await runner.run({ urgent: true });
      const outputs: [string, Float32Array][] = [];
      for (const key of plan.outputs) {
        const { texture } = runner.findValue(key);
        if (!sections.computesTexture(texture, sections.select(section))) continue;
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
