// Every index, size and name of a Plan, checked against the Plan itself and the device.

import { type Check, checkCarries, checkSections } from "./check_sections.ts";
import { PlanError } from "./runtime.ts";
import {
  ALIGN,
  type Pass,
  type PlanHeader,
  type Target,
  TEXEL_BYTES,
  type Texture,
  UNIFORM_BYTES,
  type Value,
} from "./schema.ts";

/** A Plan may not ask for more; a page with less memory says so when it allocates. */
const MOST_TEXTURE_BYTES = 4 * 2 ** 30;
/** Of a value, told apart by a field: a longer signal would take seconds. */
const MOST_PLACES = 2 ** 28;
const IDENTIFIER = /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/;
const HASH = /^[0-9a-f]{32}$/;
const LAYOUT_WORDS = 16;

/** Bytes of textures on the device. */
export function textureBytes(textures: readonly Texture[]): number {
  const bytes = textures.map((t) => t.width * t.height * t.layers * TEXEL_BYTES[t.format]);
  return bytes.reduce((sum, one) => sum + one, 0);
}

/** Which places of a picture tokens stand for. */
function checkTokens({ tokens, inputs, values }: PlanHeader, check: Check): void {
  for (const [k, { input, rows, columns, places }] of tokens.entries()) {
    check(
      inputs.some(({ key }) => key === input) && Math.min(rows, columns) >= 1,
      `tokens ${k} have ${rows}×${columns} places of ${JSON.stringify(input)}`,
    );
    check(
      places.every((place) => place >= -1 && place < rows * columns),
      `tokens ${k} stand for places outside of their picture`,
    );
  }
  for (const { key, nchw, tokens: own } of values) {
    const right = own.every((number, k) => {
      return number === -1 || tokens[number]?.places.length === nchw[k + 2];
    });
    check(right, `value ${JSON.stringify(key)} has tokens that are not its own`);
  }
}

/** Throws PlanError when any number of the Plan points outside what it should, or `target` is too small. */
export function checkPlan(plan: PlanHeader, uniformBytes: number, target?: Target): void {
  const { textures, programs } = plan;
  const check = (right: boolean, what: string) => {
    if (!right) throw new PlanError(`damaged Plan: ${what}`);
  };
  const fit = (asked: number, most: number | undefined, what: string) => {
    if (most !== undefined && asked > most) {
      throw new PlanError(
        `this device is too small for the Plan: ${what} ${asked} of at most ${most}`,
      );
    }
  };

  check(
    plan.uniform_bytes === uniformBytes,
    `${uniformBytes} bytes of uniforms, not ${plan.uniform_bytes}`,
  );
  check(plan.batch >= 1, `a batch of ${plan.batch}`);
  for (const [k, { width, height, layers }] of textures.entries()) {
    check(Math.min(width, height, layers) >= 1, `texture ${k} has no texels`);
    fit(Math.max(width, height), target?.max_texture_size, "texture side");
    fit(layers, target?.max_array_layers, "texture layers");
  }
  fit(textureBytes(textures), MOST_TEXTURE_BYTES, "bytes of textures");
  for (const [k, program] of programs.entries()) {
    const what = `program ${k} (${program.name})`;
    check(
      program.samplers.every((name) => IDENTIFIER.test(name)),
      `${what} has a wrong sampler name`,
    );
    check(program.targets >= 1, `${what} has no target`);
    fit(program.targets, target?.max_draw_buffers, "render targets");
    fit(program.samplers.length, target?.max_texture_units, "texture units");
  }

  const texels = (index: number) => {
    const t = textures[index];
    return t === undefined ? 0 : t.width * t.height;
  };
  const checkPass = (pass: Pass, what: string) => {
    const program = programs[pass.program];
    const output = textures[pass.output];
    const [width, height] = pass.viewport;
    check(program !== undefined && output !== undefined, `${what} names no program or output`);
    if (program === undefined || output === undefined) return;
    check(
      pass.inputs.length === program.samplers.length,
      `${what} has ${pass.inputs.length} inputs`,
    );
    check(
      pass.inputs.every((t) => textures[t] !== undefined),
      `${what} reads a texture that is not there`,
    );
    check(!pass.inputs.includes(pass.output), `${what} reads what it writes`);
    check(
      program.targets === output.layers,
      `${what} writes ${program.targets} of ${output.layers} layers`,
    );
    check(width >= 1 && height >= 1, `${what} has an empty viewport`);
    check(width <= output.width && height <= output.height, `${what} draws outside its output`);
    const { uniforms } = pass;
    const inside =
      uniforms >= 0 && uniforms % ALIGN === 0 && uniforms + UNIFORM_BYTES <= uniformBytes;
    check(inside, `${what} has its uniforms at ${uniforms} of ${uniformBytes}`);
    check(pass.cost >= 0, `${what} costs ${pass.cost}`);
  };
  const checkValue = (value: Value, what: string) => {
    const { nchw } = value;
    const { count, step } = value.read;
    check(textures[value.texture] !== undefined, `${what} has no texture`);
    check(value.words.length === LAYOUT_WORDS, `${what} has ${value.words.length} layout words`);
    check(
      value.words.every((word) => word >= 1),
      `${what} has an empty layout`,
    );
    checkPass(step, `reading ${what}`);
    check(textures[step.output]?.layers === 1, `reading ${what} writes several layers`);
    check(count === elements(value.shape), `${what} reads ${count} elements`);
    check(
      nchw.every((length) => length >= 1) && elements(nchw) === Math.max(1, count),
      `${what} is shown as ${nchw.join("×")}`,
    );
    check(count <= step.viewport[0] * step.viewport[1] * 4, `${what} reads more than it draws`);
  };

  for (const [k, pass] of plan.passes.entries()) checkPass(pass, `pass ${k}`);
  checkSections(plan, check);
  const keys = new Set<string>();
  for (const value of plan.values) {
    const what = `value ${JSON.stringify(value.key)}`;
    check(!keys.has(value.key), `${what} is there twice`);
    keys.add(value.key);
    checkValue(value, what);
    // A parameter lies in its weight texture as a kernel wants it: it can be read, not drawn.
    check(fits(value, textures[value.texture]), `${what} does not fit its texture`);
  }
  checkEditable(plan, check);
  checkTokens(plan, check);
  for (const value of plan.parameters) checkValue(value, `parameter ${JSON.stringify(value.key)}`);
  for (const input of plan.inputs) {
    const what = `input ${JSON.stringify(input.key)}`;
    checkPass(input.step, what);
    check(input.step.inputs.includes(input.staging), `${what} does not read its staging texture`);
    check(elements(input.shape) >= 0, `${what} has a wrong shape`);
    check(textures[input.staging]?.layers === 1, `${what} has several staging layers`);
    check(
      elements(input.shape) <= texels(input.staging) * 4,
      `${what} does not fit its staging texture`,
    );
  }
  for (const key of plan.outputs) check(keys.has(key), `output ${JSON.stringify(key)} is no value`);
  const { pairs, table } = plan.comparison;
  const rows = (plan.values.find(({ key }) => key === table)?.shape[1] ?? 0) / 3;
  for (const { a, b, difference, row } of pairs) {
    const known = [a, b, difference].every((key) => keys.has(key)) && row >= 0 && row < rows;
    check(known, `a comparison of ${JSON.stringify(a)} is none of values`);
  }
  checkReaches(plan, check);
  checkCarries(plan, check);
  for (const { hash, texture } of plan.weights) {
    check(HASH.test(hash), "a weight has no hash");
    check(textures[texture] !== undefined, `weight ${hash} has no texture`);
  }
}

/** Edits of a value would run somewhere, and passes read edits of what they read. */
function checkEditable({ values, passes }: PlanHeader, check: Check): void {
  const channels = new Map(values.map(({ key, nchw }) => [key, nchw[1]]));
  for (const [number, { key, texture, after, source, edited_as, nchw }] of values.entries()) {
    const what = `value ${JSON.stringify(key)}`;
    const like = edited_as === "" || channels.get(edited_as) === nchw[1];
    check(like, `${what} is edited as ${JSON.stringify(edited_as)}`);
    check(after >= -2 && after < passes.length, `edits of ${what} run behind pass ${after}`);
    const seen = new Set([number]);
    for (let one = source; one !== -1; one = values[one]?.source ?? -1) {
      check(values[one] !== undefined && !seen.has(one), `${what} is a view of value ${one}`);
      check(values[one]?.texture === texture, `${what} is a view of another texture`);
      seen.add(one);
    }
  }
  for (const [k, { inputs, values: read }] of passes.entries()) {
    const { length } = read;
    check(
      length === 0 || length === inputs.length,
      `pass ${k} has ${length} values for ${inputs.length} inputs`,
    );
    for (const [i, one] of read.entries()) {
      const right = one === -1 || values[one]?.texture === inputs[i];
      check(right, `pass ${k} reads texture ${inputs[i]} as value ${one}`);
    }
  }
}

/** What is looked up to find a field lies inside its axes, and takes no longer than that. */
function checkReaches({ reaches, layers, inputs }: PlanHeader, check: Check): void {
  for (const [k, { reader, source, axes }] of reaches.entries()) {
    const what = `reach ${k}`;
    for (const places of [placesOf(reader), placesOf(source)]) {
      check(places >= 0 && places <= MOST_PLACES, `${what} has ${places} places`);
    }
    check(axes.length === source.length, `${what} has ${axes.length} axes`);
    const named = axes.map(({ axis }) => axis).filter((axis) => axis >= 0);
    check(new Set(named).size === named.length, `${what} names an axis twice`);
    for (const [i, along] of axes.entries()) {
      const { axis, kernel, table } = along;
      const [length, size] = [reader[axis], source[i] ?? 0];
      check(axis === -1 || length !== undefined, `${what} reads along axis ${axis}`);
      check(kernel >= 1 && kernel <= MOST_PLACES, `${what} has a window of ${kernel}`);
      check(table.length === 0 || table.length === length, `${what} has ${table.length} rows`);
      check(
        table.every((row) => row.every((place) => place >= 0 && place < size)),
        `${what} reads outside of its source`,
      );
    }
  }
  for (const { name, output_shape, places, reads } of layers) {
    const what = `layer ${JSON.stringify(name)}`;
    const found = new Map([[0, placesIn(output_shape, places)]]);
    check(found.get(0) !== -1, `${what} has places along axes ${places}`);
    for (const [reader, source, index] of reads) {
      const reach = reaches[index];
      check(reach !== undefined, `${what} reads by reach ${index}`);
      const made = placesOf(reach?.reader ?? []) === found.get(reader);
      check(made && source > 0, `${what} reads ${source} for ${reader}`);
      const own = placesOf(reach?.source ?? []);
      check((found.get(source) ?? own) === own, `${what} reads several sizes of ${source}`);
      found.set(source, own);
    }
  }
  for (const { key, shape, places } of inputs) {
    check(
      placesIn(shape, places) !== -1,
      `input ${JSON.stringify(key)} has places along ${places}`,
    );
  }
}

const placesOf = (sizes: readonly number[]): number =>
  sizes.every((size) => size >= 0) ? sizes.reduce((a, b) => a * b, 1) : -1;

/** How many places there are along axes of a shape; -1 where those are none. */
const placesIn = (shape: readonly number[], places: readonly number[]): number =>
  places.every((axis, k) => axis > (places[k - 1] ?? -1) && axis < shape.length)
    ? placesOf(places.map((axis) => shape[axis] ?? -1))
    : -1;

/**
 * The words of layout.py's Layout, in its order, describe an area inside the texture, or one that is cut into strips
 * as long as that.
 */
function fits({ words, layout }: Value, texture: Texture | undefined): boolean {
  const [, c = 0, , , tw = 0, th = 0, columns = 0, groups = 0] = words;
  const [bn = 0, by = 0, bx = 0, tiles = 0, sy = 0, sx = 0, aw = 0, ah = 0] = words.slice(8);
  if (texture === undefined) return false;
  const [width, height] = [sx * aw, sy * ah];
  const strips = (length: number, side: number) => (layout.side > 0 ? Math.ceil(length / side) : 1);
  const [across, down] = [strips(width, texture.width), strips(height, texture.height)];
  return (
    groups === Math.ceil(c / 4) &&
    columns * tw <= aw &&
    Math.ceil(tiles / columns) * th <= ah &&
    Math.ceil(width / across) * down <= texture.width &&
    Math.ceil(height / down) * across <= texture.height &&
    bn * by * bx <= texture.layers
  );
}

/** How many elements a shape has; -1 when a dimension is negative. */
export function elements(shape: readonly number[]): number {
  return shape.every((size) => size >= 0) ? shape.reduce((a, b) => a * b, 1) : -1;
}
