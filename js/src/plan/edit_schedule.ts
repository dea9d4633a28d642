// The additions of edits to a Plan: passes of bend.glsl after its own, their textures, and the relocated values.

import {
  beforeEditsKey,
  differenceKey,
  type EditPreview,
  intermediateKey,
  previewKey,
  splitKey,
  uneditedKey,
} from "./derived_values.ts";
import {
  type BendUniforms,
  bendCost,
  bendProgram,
  bendUniforms,
  passCount,
} from "./edit_program.ts";
import {
  buildEditStacks,
  type EditedTextures,
  editedTexture,
  isActive,
  sourceTexture,
} from "./edit_stacks.ts";
import type { Edit } from "./edits.ts";
import type { ProgramSource } from "./program_source.ts";
import { relocateValue, singleChannelValue, singleMapTexture } from "./relocated_values.ts";
import { type Pass, type PlanHeader, type Texture, UNIFORM_BYTES, type Value } from "./schema.ts";
import { findSkippedPasses, type SkippedPasses } from "./skipped_passes.ts";
import { isReshaped, type ValueLayout } from "./uniforms.ts";

/** Everything requested at one time. */
export interface EditRequest {
  readonly edits: readonly Edit[];
  readonly getArray: (hash: string) => Float32Array;
  /** Keys of values to keep in their unedited version. */
  readonly uneditedKeys: readonly string[];
  /** Keys of values to keep after each of their edits. */
  readonly intermediateKeys: readonly string[];
  readonly preview: (EditPreview & { readonly id: number }) | null;
}

/** Indices of device objects by name. A request for an object marks it as needed by the current edits. */
export interface ResourcePool {
  /** A program that draws into textures like `renderTarget`. */
  requestProgram(source: ProgramSource, renderTarget: Texture): number;
  requestTexture(name: string, size: Texture): number;
  hasTexture(name: string): boolean;
  /** A channel table, filled before the next run. */
  requestChannelTable(name: string, value: Value, channels: readonly number[] | null): number;
  /**
   * An injected array by its hash. With `name`, the array is loaded into one reused texture, so that no texture is
   * created for each array.
   */
  requestInjectedArray(hash: string, name?: string): number;
  /** The device's maximum texture side. */
  readonly maxTextureSide: number;
}

export interface EditSchedule {
  readonly request: EditRequest;
  /** Edit passes to run after each of the Plan's passes, by its number. */
  readonly passesAfter: ReadonlyMap<number, readonly Pass[]>;
  /** Passes that copy values in a run without edits, by value number. */
  readonly uneditedCopies: ReadonlyMap<number, Pass>;
  /** Passes to run after all others. */
  readonly finalPasses: readonly Pass[];
  /** Passes and values that are skipped because of latents. */
  readonly skipped: SkippedPasses;
  /**
   * For each latent, by value number: the texture of its value before the bends that follow, and the pass that writes
   * it.
   */
  readonly latentValues: ReadonlyMap<number, LatentPass>;
  /** The uniforms of the passes, in the order of their uniform blocks. */
  readonly uniforms: readonly BendUniforms[];
  readonly editedTextures: EditedTextures;
  /** The Plan's values in their current textures, and the values derived from them, by key. */
  readonly values: ReadonlyMap<string, Value>;
  readonly previewKeys: readonly string[];
  /** For each value, the Plan's value that it is derived from. */
  readonly baseValues: ReadonlyMap<Value, Value>;
}

export interface LatentPass {
  readonly texture: number;
  readonly pass: Pass;
}

/** The size of the region of a value's texture that is drawn. */
function viewportOf({
  layout_words,
  layout: { max_side },
}: ValueLayout): readonly [number, number] {
  const [sy = 1, sx = 1, aw = 1, ah = 1] = layout_words.slice(12);
  const [width, height] = [sx * aw, sy * ah];
  const [across, down] =
    max_side > 0 ? [Math.ceil(width / max_side), Math.ceil(height / max_side)] : [1, 1];
  return [Math.ceil(width / across) * down, Math.ceil(height / down) * across];
}

/** All values of a Plan in their textures after the edits; for each edited value also the version before its edits. */
function resolveValues(
  plan: PlanHeader,
  editedTextures: EditedTextures,
  texturesBeforeEdits: EditedTextures,
  { valueIndices }: SkippedPasses,
): Value[] {
  if (editedTextures.size === 0) return [...plan.values];
  return plan.values.flatMap((value, number) => {
    if (valueIndices.has(number)) return [];
    const now = relocateValue(value, editedTexture(plan, number, editedTextures));
    const texture = texturesBeforeEdits.get(number);
    return texture === undefined
      ? [now]
      : [now, relocateValue(value, texture, beforeEditsKey(value.key))];
  });
}

export function scheduleEdits(
  plan: PlanHeader,
  request: EditRequest,
  pool: ResourcePool,
): EditSchedule {
  const uniforms: BendUniforms[] = [];
  const passesAfter = new Map<number, Pass[]>();
  const [editedTextures, before] = [new Map<number, number>(), new Map<number, number>()];
  const sizeOf = ({ texture }: Value) => plan.textures[texture] as Texture;
  /** Make a pass. Previews share one program. */
  const draw = (
    value: Value,
    inputs: number[],
    output: number,
    told: BendUniforms,
    edit?: Edit,
  ) => {
    uniforms.push(told);
    const fixed = told.singleMap === undefined ? told.transform : undefined;
    const like = told.output === value ? sizeOf(value) : { ...sizeOf(value), layers: 1 };
    const pass: Pass = {
      program: pool.requestProgram(bendProgram(like.layers, isReshaped(value), fixed, edit), like),
      inputs,
      output,
      uniforms: (uniforms.length - 1) * UNIFORM_BYTES,
      viewport: viewportOf(told.output),
      layer: -1,
      cost: bendCost(told),
      input_values: [],
    };
    return pass;
  };
  const all = (value: Value) => pool.requestChannelTable(`all ${value.nchw[1]}`, value, null);

  const skipped = findSkippedPasses(plan, request.edits);
  const latentValues = new Map<number, LatentPass>();
  /** The texture that holds the value after each active edit. */
  const outputByEdit = new Map<Edit, number>();
  for (const { valueIndex, value, edits } of buildEditStacks(
    plan,
    request.edits.filter(isActive),
  )) {
    if (skipped.valueIndices.has(valueIndex)) continue;
    const passes = passesAfter.get(value.edit_pass) ?? [];
    passesAfter.set(value.edit_pass, passes);
    const workTexture = (k: number) =>
      pool.requestTexture(`bent ${valueIndex} ${k}`, sizeOf(value));
    const kept = request.intermediateKeys.includes(value.key);
    let source = sourceTexture(plan, valueIndex, editedTextures);
    before.set(valueIndex, source);
    for (const [k, edit] of edits.entries()) {
      // The final result of a value keeps its texture, as does a latent's. Intermediate results alternate between two
      // others unless they are kept.
      const within = () =>
        kept
          ? pool.requestTexture(`stage ${valueIndex} ${k}`, sizeOf(value))
          : workTexture(1 + (k % 2));
      const target = edit.skips_upstream
        ? workTexture(4)
        : k === edits.length - 1
          ? workTexture(0)
          : within();
      const table = pool.requestChannelTable(
        `of ${edit.name} ${value.nchw[1]}`,
        value,
        edit.channels,
      );
      const code = edit.skips_upstream ? `code ${valueIndex}` : undefined;
      const array = edit.array_hash ? pool.requestInjectedArray(edit.array_hash, code) : table;
      const count = passCount(edit);
      let from = source;
      for (let stage = 0; stage < count; stage++) {
        const output = stage === count - 1 ? target : workTexture(3);
        const told = bendUniforms(value, edit, stage);
        const pass = draw(value, [from, source, table, array], output, told, edit);
        passes.push(pass);
        if (edit.skips_upstream) latentValues.set(valueIndex, { texture: target, pass });
        from = output;
      }
      source = target;
      if (edit.skips_upstream) before.set(valueIndex, source);
      if (edit.layer === value.key) outputByEdit.set(edit, target);
    }
    editedTextures.set(valueIndex, source);
  }

  const values = resolveValues(plan, editedTextures, before, skipped);
  for (const key of request.intermediateKeys) {
    const number = plan.values.findIndex((one) => one.key === key);
    const value = plan.values[number];
    if (value === undefined || skipped.valueIndices.has(number)) continue;
    let texture = sourceTexture(plan, number, editedTextures);
    values.push(relocateValue(value, texture, intermediateKey(key, 0)));
    for (const [k, edit] of request.edits.filter(({ layer }) => layer === key).entries()) {
      texture = outputByEdit.get(edit) ?? texture;
      values.push(relocateValue(value, texture, intermediateKey(key, k + 1)));
    }
  }
  const uneditedCopies = new Map<number, Pass>();
  const finalPasses: Pass[] = [];
  const own = { passIndex: 0, parameters: [], mix: 1, injectedChannels: 0 };
  for (const key of request.uneditedKeys) {
    const number = plan.values.findIndex((one) => one.key === key);
    const value = plan.values[number];
    // Once created, it exists as long as it is requested: a view that draws it need not track the removal of the last
    // edit.
    const name = `difference ${number}`;
    if (skipped.valueIndices.has(number)) continue;
    if (value === undefined || (editedTextures.size === 0 && !pool.hasTexture(name))) continue;
    const whole = { ...own, input: value, beforeEdit: value, output: value };
    const table = all(value);
    let without = value.texture;
    if (editedTextures.size > 0) {
      without = pool.requestTexture(`without ${number}`, sizeOf(value));
      const told = { ...whole, transform: "none" };
      const own = editedTexture(
        plan,
        number,
        new Map([...latentValues].map(([k, one]) => [k, one.texture])),
      );
      uneditedCopies.set(number, draw(value, [own, own, table, table], without, told));
    }
    const difference = pool.requestTexture(name, sizeOf(value));
    const now = editedTexture(plan, number, editedTextures);
    const told = { ...whole, transform: "difference" };
    finalPasses.push(draw(value, [now, without, table, table], difference, told));
    values.push(relocateValue(value, without, uneditedKey(key)));
    const unlimited = { ...value, value_range: [null, null] as const };
    values.push(relocateValue(unlimited, difference, differenceKey(key)));
  }

  const previewKeys: string[] = [];
  const { preview } = request;
  const number = plan.values.findIndex(({ key }) => key === preview?.layer);
  const value = plan.values[number];
  if (preview !== null && value !== undefined) {
    const size = singleMapTexture(value, sizeOf(value));
    const from = editedTexture(plan, number, editedTextures);
    const singleMap = [preview.channel, preview.image] as const;
    const fits = Math.max(size.width, size.height) <= pool.maxTextureSide;
    for (const [k, edit] of (fits ? preview.edits : []).entries()) {
      const workTexture = (what: string) =>
        pool.requestTexture(`preview ${what} ${size.width} ${size.height}`, size);
      const one = singleChannelValue(value, previewKey(`${preview.id} ${k}`), workTexture(`${k}`));
      const table = all(value);
      const count = passCount(edit);
      let made = from;
      for (let stage = 0; stage < count; stage++) {
        const output = stage === count - 1 ? one.texture : workTexture("first");
        const told = { ...bendUniforms(value, edit, stage), output: one, singleMap };
        const read = stage === 0 ? told : { ...told, input: one };
        finalPasses.push(draw(value, [made, from, table, table], output, read, edit));
        made = output;
      }
      values.push(
        one.display_kind === "maps" || !isReshaped(value) ? one : { ...one, display_kind: "maps" },
      );
      previewKeys.push(one.key);
    }
  }
  const baseValues = baseValuesOf(plan, values, preview?.layer);
  const byKey = new Map(values.map((one) => [one.key, one]));
  return {
    request,
    passesAfter,
    uneditedCopies,
    finalPasses,
    skipped,
    latentValues,
    uniforms,
    editedTextures,
    values: byKey,
    previewKeys,
    baseValues,
  };
}

function baseValuesOf(
  plan: PlanHeader,
  values: readonly Value[],
  previewedKey: string | undefined,
): Map<Value, Value> {
  const own = new Map(plan.values.map((value) => [value.key, value]));
  const find = ({ key }: Value) => own.get(splitKey(key)[1]);
  const found = values.map((value) => [value, find(value) ?? own.get(previewedKey ?? "") ?? value]);
  return new Map(found as [Value, Value][]);
}

/** Whether two schedules have the same passes on the same objects; uniforms may differ. */
export function haveSamePasses(a: EditSchedule, b: EditSchedule): boolean {
  const all = ({ passesAfter, uneditedCopies, finalPasses }: EditSchedule) =>
    [...passesAfter].flatMap(([after, passes]) => passes.map((pass) => [after, pass] as const))
      .concat([...uneditedCopies], finalPasses.map((pass) => [-3, pass] as const))
      .map(([at, { program, inputs, output }]) => `${at} ${program} ${inputs} ${output}`)
      .join(); // biome-ignore format: one chain
  const keys = ({ values, skipped }: EditSchedule) =>
    [
      ...[...values].map(([key, { texture }]) => `${key} ${texture}`),
      ...skipped.passIndices,
    ].join();
  return all(a) === all(b) && keys(a) === keys(b);
}
