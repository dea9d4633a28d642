// What edits add to a Plan: passes of bend.glsl behind its own, the textures they take, and where values lie then.

import {
  beforeKey,
  differenceKey,
  type Preview,
  previewKey,
  splitKey,
  stageKey,
  withoutKey,
} from "./derived_values.ts";
import { type BendNumbers, bendProgram, costOf, numbersOfEdit, stagesOf } from "./edit_program.ts";
import { acts, type Bent, sourceOf, stacksOf, textureOf } from "./edit_stacks.ts";
import type { Edit } from "./edits.ts";
import type { ProgramSource } from "./program_source.ts";
import { elsewhere, mapTexture, oneChannel } from "./relocate.ts";
import { type Pass, type PlanHeader, type Texture, UNIFORM_BYTES, type Value } from "./schema.ts";
import { type Skipped, skippedBy } from "./skipped_passes.ts";
import { isReshaped, type Lying } from "./uniforms.ts";

/** All that is asked for at one time. */
export interface Wanted {
  readonly edits: readonly Edit[];
  readonly array: (hash: string) => Float32Array;
  /** Keys of the values that are kept as they are without edits. */
  readonly compared: readonly string[];
  /** Keys of the values that are kept as they are after each of their edits. */
  readonly staged: readonly string[];
  readonly preview: (Preview & { readonly id: number }) | null;
}

/** Objects on the device by names of our own; each call says that one is needed. */
export interface Stock {
  /** One that draws into textures like this. */
  program(source: ProgramSource, like: Texture): number;
  texture(name: string, size: Texture): number;
  has(name: string): boolean;
  /** A table of channels, filled before the next run. */
  table(name: string, value: Value, channels: readonly number[] | null): number;
  /** By its hash; under another name one that is filled with what it has then, so that others need not be made. */
  array(hash: string, name?: string): number;
  /** A side that no texture may be longer than. */
  readonly longest: number;
}

export interface Laid {
  readonly wanted: Wanted;
  /** Passes of edits behind each of the Plan's, by its number. */
  readonly behind: ReadonlyMap<number, readonly Pass[]>;
  /** Keeps values of a run without edits, by their number. */
  readonly copies: ReadonlyMap<number, Pass>;
  /** Behind all others. */
  readonly last: readonly Pass[];
  /** What latents spare. */
  readonly skipped: Skipped;
  /** Of latents: where their values are before the bends behind them, by number, and the passes that put them there. */
  readonly given: ReadonlyMap<number, Given>;
  /** What the passes are told, in the order of their uniforms. */
  readonly numbers: readonly BendNumbers[];
  readonly bent: Bent;
  /** Of the Plan, as they lie now, and those that follow from them, by their keys. */
  readonly values: ReadonlyMap<string, Value>;
  readonly previews: readonly string[];
  /** The Plan's value that each of the other ones is of. */
  readonly bases: ReadonlyMap<Value, Value>;
}

export interface Given {
  readonly texture: number;
  readonly pass: Pass;
}

/** All that is drawn into of a value's texture. */
function viewportOf({ words, layout: { side } }: Lying): readonly [number, number] {
  const [sy = 1, sx = 1, aw = 1, ah = 1] = words.slice(12);
  const [width, height] = [sx * aw, sy * ah];
  const [across, down] = side > 0 ? [Math.ceil(width / side), Math.ceil(height / side)] : [1, 1];
  return [Math.ceil(width / across) * down, Math.ceil(height / down) * across];
}

/** All values of a Plan as they lie where some are edited, and each one's that is, before that. */
function resolved(plan: PlanHeader, bent: Bent, before: Bent, { values }: Skipped): Value[] {
  if (bent.size === 0) return [...plan.values];
  return plan.values.flatMap((value, number) => {
    if (values.has(number)) return [];
    const now = elsewhere(value, textureOf(plan, number, bent));
    const texture = before.get(number);
    return texture === undefined ? [now] : [now, elsewhere(value, texture, beforeKey(value.key))];
  });
}

export function lay(plan: PlanHeader, wanted: Wanted, stock: Stock): Laid {
  const numbers: BendNumbers[] = [];
  const behind = new Map<number, Pass[]>();
  const [bent, before] = [new Map<number, number>(), new Map<number, number>()];
  const sizeOf = ({ texture }: Value) => plan.textures[texture] as Texture;
  /** A pass. Those of previews share a program. */
  const draw = (value: Value, inputs: number[], output: number, told: BendNumbers, edit?: Edit) => {
    numbers.push(told);
    const fixed = told.alone === undefined ? told.transform : undefined;
    const like = told.to === value ? sizeOf(value) : { ...sizeOf(value), layers: 1 };
    const pass: Pass = {
      program: stock.program(bendProgram(like.layers, isReshaped(value), fixed, edit), like),
      inputs,
      output,
      uniforms: (numbers.length - 1) * UNIFORM_BYTES,
      viewport: viewportOf(told.to),
      layer: -1,
      cost: costOf(told),
      values: [],
    };
    return pass;
  };
  const all = (value: Value) => stock.table(`all ${value.nchw[1]}`, value, null);

  const skipped = skippedBy(plan, wanted.edits);
  const given = new Map<number, Given>();
  /** Where each active edit has left its value. */
  const left = new Map<Edit, number>();
  for (const { number, value, edits } of stacksOf(plan, wanted.edits.filter(acts))) {
    if (skipped.values.has(number)) continue;
    const passes = behind.get(value.after) ?? [];
    behind.set(value.after, passes);
    const room = (k: number) => stock.texture(`bent ${number} ${k}`, sizeOf(value));
    const kept = wanted.staged.includes(value.key);
    let source = sourceOf(plan, number, bent);
    before.set(number, source);
    for (const [k, edit] of edits.entries()) {
      // The last result of all stays, and a latent's; others alternate between two more, where nobody looks at them.
      const within = () =>
        kept ? stock.texture(`stage ${number} ${k}`, sizeOf(value)) : room(1 + (k % 2));
      const target = edit.skips ? room(4) : k === edits.length - 1 ? room(0) : within();
      const table = stock.table(`of ${edit.name} ${value.nchw[1]}`, value, edit.channels);
      const code = edit.skips ? `code ${number}` : undefined;
      const array = edit.array ? stock.array(edit.array, code) : table;
      const count = stagesOf(edit);
      let from = source;
      for (let stage = 0; stage < count; stage++) {
        const output = stage === count - 1 ? target : room(3);
        const told = numbersOfEdit(value, edit, stage);
        const pass = draw(value, [from, source, table, array], output, told, edit);
        passes.push(pass);
        if (edit.skips) given.set(number, { texture: target, pass });
        from = output;
      }
      source = target;
      if (edit.skips) before.set(number, source);
      if (edit.layer === value.key) left.set(edit, target);
    }
    bent.set(number, source);
  }

  const values = resolved(plan, bent, before, skipped);
  for (const key of wanted.staged) {
    const number = plan.values.findIndex((one) => one.key === key);
    const value = plan.values[number];
    if (value === undefined || skipped.values.has(number)) continue;
    let texture = sourceOf(plan, number, bent);
    values.push(elsewhere(value, texture, stageKey(key, 0)));
    for (const [k, edit] of wanted.edits.filter(({ layer }) => layer === key).entries()) {
      texture = left.get(edit) ?? texture;
      values.push(elsewhere(value, texture, stageKey(key, k + 1)));
    }
  }
  const copies = new Map<number, Pass>();
  const last: Pass[] = [];
  const own = { stage: 0, parameters: [], mix: 1, injected: 0 };
  for (const key of wanted.compared) {
    const number = plan.values.findIndex((one) => one.key === key);
    const value = plan.values[number];
    // Once there it stays as long as it is asked for: who draws it need not know when the last edit goes.
    const name = `difference ${number}`;
    if (skipped.values.has(number)) continue;
    if (value === undefined || (bent.size === 0 && !stock.has(name))) continue;
    const whole = { ...own, from: value, before: value, to: value };
    const table = all(value);
    let without = value.texture;
    if (bent.size > 0) {
      without = stock.texture(`without ${number}`, sizeOf(value));
      const told = { ...whole, transform: "none" };
      const own = textureOf(plan, number, new Map([...given].map(([k, one]) => [k, one.texture])));
      copies.set(number, draw(value, [own, own, table, table], without, told));
    }
    const difference = stock.texture(name, sizeOf(value));
    const now = textureOf(plan, number, bent);
    const told = { ...whole, transform: "difference" };
    last.push(draw(value, [now, without, table, table], difference, told));
    values.push(elsewhere(value, without, withoutKey(key)));
    const unlimited = { ...value, limits: [null, null] as const };
    values.push(elsewhere(unlimited, difference, differenceKey(key)));
  }

  const previews: string[] = [];
  const { preview } = wanted;
  const number = plan.values.findIndex(({ key }) => key === preview?.layer);
  const value = plan.values[number];
  if (preview !== null && value !== undefined) {
    const size = mapTexture(value, sizeOf(value));
    const from = textureOf(plan, number, bent);
    const alone = [preview.channel, preview.image] as const;
    const fits = Math.max(size.width, size.height) <= stock.longest;
    for (const [k, edit] of (fits ? preview.edits : []).entries()) {
      const room = (what: string) =>
        stock.texture(`preview ${what} ${size.width} ${size.height}`, size);
      const one = oneChannel(value, previewKey(`${preview.id} ${k}`), room(`${k}`));
      const table = all(value);
      const count = stagesOf(edit);
      let made = from;
      for (let stage = 0; stage < count; stage++) {
        const output = stage === count - 1 ? one.texture : room("first");
        const told = { ...numbersOfEdit(value, edit, stage), to: one, alone };
        const read = stage === 0 ? told : { ...told, from: one };
        last.push(draw(value, [made, from, table, table], output, read, edit));
        made = output;
      }
      values.push(one.form === "maps" || !isReshaped(value) ? one : { ...one, form: "maps" });
      previews.push(one.key);
    }
  }
  const bases = basesOf(plan, values, preview?.layer);
  const byKey = new Map(values.map((one) => [one.key, one]));
  return {
    wanted,
    behind,
    copies,
    last,
    skipped,
    given,
    numbers,
    bent,
    values: byKey,
    previews,
    bases,
  };
}

function basesOf(
  plan: PlanHeader,
  values: readonly Value[],
  previewed: string | undefined,
): Map<Value, Value> {
  const own = new Map(plan.values.map((value) => [value.key, value]));
  const find = ({ key }: Value) => own.get(splitKey(key)[1]);
  const found = values.map((value) => [value, find(value) ?? own.get(previewed ?? "") ?? value]);
  return new Map(found as [Value, Value][]);
}

/** Whether two have the same passes on the same objects, whatever these are told. */
export function sameShape(a: Laid, b: Laid): boolean {
  const all = ({ behind, copies, last }: Laid) =>
    [...behind].flatMap(([after, passes]) => passes.map((pass) => [after, pass] as const))
      .concat([...copies], last.map((pass) => [-3, pass] as const))
      .map(([at, { program, inputs, output }]) => `${at} ${program} ${inputs} ${output}`)
      .join(); // biome-ignore format: one chain
  const keys = ({ values, skipped }: Laid) =>
    [...[...values].map(([key, { texture }]) => `${key} ${texture}`), ...skipped.passes].join();
  return all(a) === all(b) && keys(a) === keys(b);
}
