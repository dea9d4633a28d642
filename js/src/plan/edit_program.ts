// The program of a bend: its source, the uniforms of one pass, the channel table; as in features/edits/shader.py.

import bend from "../../../src/nbglcnn/ops/shaders/bend.glsl";
import prelude from "../../../src/nbglcnn/ops/shaders/prelude.glsl";
import {
  CUSTOM_GLSL_TEMPLATE,
  type Edit,
  GLSL_INSERTS,
  MAX_TABLE_WIDTH,
  RESHAPED_SHADER_CONSTANTS,
  SAMPLER_NAMES,
  SHADER_CONSTANTS,
  TRANSFORM_NUMBERS,
  TRANSFORMS,
  UNIFORM_SLOTS,
} from "./edits.ts";
import type { ProgramSource } from "./program_source.ts";
import { type Texture, UNIFORM_BYTES } from "./schema.ts";
import { uniformSlots } from "./uniform_slots.ts";
import { isReshaped, type ValueLayout, writeUniforms } from "./uniforms.ts";

type TextureSize = Pick<Texture, "width" | "height" | "layers">;

/**
 * Measured: cost of a texel and of each of its reads, in texture fetches of a Plan's kernels, which know their layouts.
 */
const TEXEL_COST = 15;
const TAP_COST = 3;
/** For previews, whose program has all transforms. */
const PREVIEW_COST_FACTOR = 7;
/** Larger than the width of any texture: for values that are not stored in strips. */
const UNLIMITED_SIDE = 2 ** 24;

/** bend.glsl with the source of all transforms. */
const BEND_GLSL = bend
  .split("\n")
  .map((line) => GLSL_INSERTS[line] ?? line)
  .join("\n");

const BEND_SLOTS = uniformSlots(UNIFORM_SLOTS);

/** By the parameters of `bendProgram`: a slider requests the same program many times a second. */
const programCache = new Map<string, ProgramSource>();

/**
 * The program of a transform for textures with this many layers; without `transform`, the program of previews, which
 * has all transforms. `edit` matters only if it has its own source.
 */
export function bendProgram(
  textureLayerCount: number,
  reshaped: boolean,
  transform: string | undefined,
  edit?: Edit,
): ProgramSource {
  if (edit?.source) return buildProgram(textureLayerCount, reshaped, transform, edit);
  const name = `${textureLayerCount} ${reshaped} ${transform}`;
  const found = programCache.get(name) ?? buildProgram(textureLayerCount, reshaped, transform);
  programCache.set(name, found);
  return found;
}

function buildProgram(
  textureLayerCount: number,
  reshaped: boolean,
  transform: string | undefined,
  customEdit?: Edit,
): ProgramSource {
  const constants = {
    LAYERS: textureLayerCount,
    ...SHADER_CONSTANTS,
    ...(reshaped ? RESHAPED_SHADER_CONSTANTS : {}),
    ...(customEdit ? { CUSTOM: 1 } : {}),
    ...TRANSFORM_NUMBERS,
    ...(transform === undefined
      ? {}
      : { TRANSFORM: TRANSFORM_NUMBERS[transform.toUpperCase()], ONE_CHANNEL: -1 }),
  };
  const source = [
    ...Object.entries(constants).map(([name, value]) => `#define ${name} ${value}`),
    BEND_SLOTS.macros,
    prelude,
    ...SAMPLER_NAMES.map((name) => `uniform sampler2DArray ${name};`),
    ...Array.from(
      { length: textureLayerCount },
      (_, k) => `layout(location = ${k}) out vec4 o${k};`,
    ),
    BEND_GLSL,
    customEdit ? customGlslFunction(customEdit) : "",
  ].join("\n");
  const name = customEdit ? "transforms.glsl" : "bend";
  return {
    name,
    source,
    samplers: SAMPLER_NAMES,
    ...(customEdit ? { errorLinesSource: customEdit.source } : {}),
  };
}

function customGlslFunction({ source, parameter_names }: Edit): string {
  const lines = parameter_names.map(
    (name, k) => `  float ${name} = u_parameters(${k >> 2}).${"xyzw"[k & 3]};\n`,
  );
  // Pass functions, because the source may contain `replace` patterns.
  return CUSTOM_GLSL_TEMPLATE.replace("PARAMETERS", () => lines.join("")).replace(
    "SOURCE",
    () => source,
  );
}

const findTransform = (transform: string) => TRANSFORMS.find(({ name }) => name === transform);

export const passCount = ({ transform }: Pick<Edit, "transform">): number =>
  findTransform(transform)?.stages ?? 1;

/** Values of the uniforms in one pass of bend.glsl. */
export interface BendUniforms {
  /** The value to transform. */
  readonly input: ValueLayout;
  /** The value before the edit. */
  readonly beforeEdit: ValueLayout;
  readonly output: ValueLayout;
  /** A transform, or "none" (copy) or "difference" (subtract). */
  readonly transform: string;
  readonly passIndex: number;
  readonly parameters: readonly number[];
  readonly mix: number;
  /** Number of channels of an injected array. */
  readonly injectedChannels: number;
  /** For a preview: its channel and image. */
  readonly singleMap?: readonly [channel: number, image: number];
}

/** Write the uniform block of one pass. */
export function writeBendUniforms(
  block: ArrayBuffer,
  byteOffset: number,
  uniforms: BendUniforms,
): void {
  const {
    input,
    beforeEdit,
    output,
    transform,
    passIndex,
    parameters,
    mix,
    injectedChannels,
    singleMap,
  } = uniforms;
  const [channel, image] = singleMap ?? [-1, 0];
  const four = (k: number) => {
    const [x = 0, y = 0, z = 0, w = 0] = parameters.slice(k);
    return [x, y, z, w] as const;
  };
  const slotWords = BEND_SLOTS.fill({
    transform: TRANSFORM_NUMBERS[transform.toUpperCase()] ?? 0,
    stage: passIndex,
    one_channel: channel,
    one_example: image,
    shown: beforeEdit.nchw,
    injected: injectedChannels,
    side: output.layout.max_side || UNLIMITED_SIDE,
    parameters: [four(0), four(4)],
    mix,
  });
  writeUniforms(block, byteOffset, {
    outputLayout: output.layout_words,
    inputLayouts: [...input.layout_words, ...beforeEdit.layout_words],
    slotWords,
  });
}

/** The uniforms of one pass of an edit. */
export function bendUniforms(value: ValueLayout, edit: Edit, passIndex: number): BendUniforms {
  const { transform, parameters, mix, channels } = edit;
  const injectedChannels = channels?.length ?? value.nchw[1];
  return {
    input: value,
    beforeEdit: value,
    output: value,
    transform,
    passIndex,
    parameters,
    mix,
    injectedChannels,
  };
}

/** The uniform blocks of passes, concatenated. */
export function packUniformBlocks(uniforms: readonly BendUniforms[]): Uint8Array<ArrayBuffer> {
  const block = new ArrayBuffer(uniforms.length * UNIFORM_BYTES);
  for (const [k, numbers] of uniforms.entries())
    writeBendUniforms(block, k * UNIFORM_BYTES, numbers);
  return new Uint8Array(block);
}

const SINGLE_READ_FORMULA = { base: 1, slope: 0, parameter: 0, power: 1 };

/** The number of texture fetches of a pass, in the unit of a Plan's costs. */
export function bendCost({ output, transform, parameters, singleMap }: BendUniforms): number {
  const [n, c, h, w] = output.nchw;
  const texels = n * (isReshaped(output) ? c : Math.ceil(c / 4)) * h * w;
  const { base, slope, parameter, power } = findTransform(transform)?.reads ?? SINGLE_READ_FORMULA;
  const taps = (base + slope * (parameters[parameter] ?? 0)) ** power;
  return (
    texels * (TEXEL_COST + taps * TAP_COST) * (singleMap === undefined ? 1 : PREVIEW_COST_FACTOR)
  );
}

const textureSizeOf = (texels: number): TextureSize => {
  const width = Math.min(Math.max(1, texels), MAX_TABLE_WIDTH);
  return { width, height: Math.max(1, Math.ceil(texels / width)), layers: 1 };
};

export const channelTableSize = ({ nchw }: Pick<ValueLayout, "nchw">): TextureSize =>
  textureSizeOf(Math.ceil(nchw[1] / 4));
export const arrayTextureSize = (elements: number): TextureSize =>
  textureSizeOf(Math.ceil(elements / 4));

/** One texel per channel group. Each channel has its 1-based index in `channels`, or 0; null selects all channels. */
export function channelTable(
  value: Pick<ValueLayout, "nchw">,
  channels: readonly number[] | null,
): Float32Array {
  const { width, height } = channelTableSize(value);
  const found = new Float32Array(width * height * 4);
  if (channels !== null) for (const [k, channel] of channels.entries()) found[channel] = k + 1;
  else for (let k = 0; k < value.nchw[1]; k++) found[k] = k + 1;
  return found;
}

/** Pad an injected array to whole rows of texels. */
export function packTexels(array: Float32Array): Float32Array {
  const { width, height } = arrayTextureSize(array.length);
  if (array.length === width * height * 4) return array;
  const found = new Float32Array(width * height * 4);
  found.set(array);
  return found;
}
