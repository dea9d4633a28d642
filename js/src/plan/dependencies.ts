// Checks of a Plan that need loops; plan/dependencies.py has the same checks and messages.

import { joinText, prod, quote } from "./constraint_table.ts";
import type { IndexMap, PlanHeader } from "./schema.ts";
import { sectionsByTexture } from "./sections.ts";

/** The message of the first failed check; undefined if there is none. */
export function findBrokenDependency(plan: PlanHeader): string | undefined {
  return (
    checkPassOrder(plan) ?? checkValueViews(plan) ?? checkDependencies(plan) ?? checkIndexMaps(plan)
  );
}

/** Check that no pass reads a texture that it or a later pass writes: a second run would give other values. */
function checkPassOrder(plan: PlanHeader): string | undefined {
  const writers = sectionsByTexture(plan);
  for (const [number, { first, count }] of plan.sections.entries()) {
    const written = new Set<number>();
    for (let k = first; k < first + count; k++) {
      const { inputs = [], output = -1 } = plan.passes[k] ?? {};
      for (const texture of inputs) {
        // Allowed: an earlier pass of this section writes the texture, or a single earlier section, or none.
        const own = [...(writers.get(texture) ?? [])];
        const before = own.length < 2 && Math.max(-1, ...own) < number;
        if (!written.has(texture) && !before) {
          return `pass ${k} reads texture ${texture} before it is written`;
        }
      }
      written.add(output);
    }
  }
  return undefined;
}

/** Check that a value's source exists, is another value, and is in the same texture. */
function checkValueViews({ values }: PlanHeader): string | undefined {
  for (const [number, { key, texture, view_of }] of values.entries()) {
    const what = `value ${quote(key)} is a view of`;
    const seen = new Set([number]);
    for (let at = view_of; at !== -1; at = values[at]?.view_of ?? -1) {
      const found = values[at]?.texture;
      if (found === undefined || seen.has(at)) return `${what} value ${at}`;
      if (found !== texture) {
        return `${what} another texture: value ${at} is texture ${found}, not ${texture}`;
      }
      seen.add(at);
    }
  }
  return undefined;
}

/** Check that each dependency of a layer is known before it is read, with the same number of positions. */
function checkDependencies({ layers, field_maps }: PlanHeader): string | undefined {
  for (const layer of layers) {
    const name = `layer ${quote(layer.name)}`;
    const found = new Map([
      [0, prod(layer.position_axes.map((axis) => layer.output_shape[axis] ?? 0))],
    ]);
    for (const [reader, source, index] of layer.dependencies) {
      const reach = field_maps[index];
      if (source <= 0 || prod(reach?.output_sizes ?? []) !== found.get(reader)) {
        return `${name} reads ${source} for ${reader}, by field map ${index}`;
      }
      const own = prod(reach?.input_sizes ?? []);
      const known = found.get(source) ?? own;
      if (known !== own) {
        return `${name} reads several sizes of ${source}: ${known} and ${own} positions`;
      }
      found.set(source, own);
    }
  }
  return undefined;
}

/** Check that the index maps of layers lead to existing elements. */
function checkIndexMaps({ values, parameters, layers }: PlanHeader): string | undefined {
  const sizes = new Map([...values, ...parameters].map(({ key, shape }) => [key, prod(shape)]));
  for (const { name, operands, index_maps, output_shape, raw_shape } of layers) {
    const ways = [
      // If the Plan doesn't keep an operand, it can't be shown, so its size doesn't matter.
      ...operands.map((one) => ({
        moves: one.index_maps,
        shape: one.shape,
        size: sizes.get(one.key),
      })),
      {
        moves: index_maps,
        shape: output_shape,
        size: prod(raw_shape.length > 0 ? raw_shape : output_shape),
      },
    ];
    for (const { moves: indexMaps, shape, size } of ways) {
      const what = `layer ${quote(name)} moves elements of ${joinText(shape, "×")}`;
      let count = prod(shape);
      if (count === 0) continue; // an empty shape moves no elements
      for (const move of indexMaps) {
        const [low, high] = sourceRange(move, count);
        if (low < 0 || high < 0) return `${what} that are not there`;
        count = high + 1;
      }
      if (indexMaps.length > 0 && size !== undefined && count > size) {
        return `${what} from outside of a value: element ${count - 1} of ${size}`;
      }
    }
  }
  return undefined;
}

/** The first and last source element of an index map over `elementCount` elements; [-1, -1] if the map is invalid. */
function sourceRange(indexMap: IndexMap, elementCount: number): readonly [number, number] {
  const { sizes, strides, axis, table, offset } = indexMap;
  const right =
    strides.length === sizes.length &&
    axis >= -1 &&
    axis < sizes.length &&
    sizes.every((size) => size >= 1) &&
    prod(sizes) >= elementCount &&
    table.length === (sizes[axis] ?? 0);
  if (!right) return [-1, -1];
  let [low, high] = [offset, offset];
  for (const [k, size] of sizes.entries()) {
    const ends = k === axis ? table : [0, (size - 1) * (strides[k] ?? 0)];
    low += ends.reduce((a, b) => Math.min(a, b));
    high += ends.reduce((a, b) => Math.max(a, b));
  }
  return [low, high];
}
