// Receptive and projective fields: the positions of one value that can affect a position of another.
import type { FieldMap, Layer, PlanHeader } from "../plan/schema.ts";
import {
  type FieldExtent,
  type FieldExtents,
  operandExtents,
  unionExtents,
} from "./field_extents.ts";
import { createMappings, type Mask, mapMask, unionMasks } from "./masks.ts";

/** A result for each value: a mask, or theoretical extents. */
type ResultsByKey<T> = Map<string, T>;

/** Fields from the layer table alone: the elements that can be read. Zero weights may exclude some of them. */
export class FieldPropagator {
  private readonly layers: readonly Layer[];
  private readonly fieldMaps: readonly FieldMap[];
  private readonly mappings = new Map<number, ReturnType<typeof createMappings>>();

  constructor(plan: PlanHeader) {
    this.layers = plan.layers;
    this.fieldMaps = plan.field_maps;
  }

  private getMaskMappings(fieldMapIndex: number) {
    const known = this.mappings.get(fieldMapIndex);
    if (known !== undefined) return known;
    const made = this.fieldMaps[fieldMapIndex];
    if (made === undefined) throw new RangeError(`no reach ${fieldMapIndex}`);
    const fresh = createMappings(made);
    this.mappings.set(fieldMapIndex, fresh);
    return fresh;
  }

  /** Propagate from a layer's value backwards to every value before it. */
  private propagateBackwards<T>(
    name: string,
    startField: T,
    propagate: (reach: number, of: T) => T,
    unite: (a: T | undefined, b: T) => T,
  ): ResultsByKey<T> {
    const found = new Map<string, T>([[name, startField]]);
    for (const layer of this.layers.toReversed()) {
      const mine = found.get(layer.name);
      if (mine === undefined) continue;
      const parts = new Map<number, T>([[0, mine]]);
      for (const [reader, source, fieldMapIndex] of layer.dependencies) {
        const of = parts.get(reader);
        if (of !== undefined)
          parts.set(source, unite(parts.get(source), propagate(fieldMapIndex, of)));
      }
      for (const [k, key] of layer.inputs.entries()) {
        const part = parts.get(k + 1);
        if (part !== undefined) found.set(key, unite(found.get(key), part));
      }
    }
    return found;
  }

  /** The receptive field of these positions in every earlier value. */
  receptiveField(name: string, positions: Mask): ReadonlyMap<string, Mask> {
    return this.propagateBackwards(
      name,
      positions,
      (fieldMapIndex, of) => mapMask(this.getMaskMappings(fieldMapIndex).toInputs, of),
      unionMasks,
    );
  }

  /** The extents of a value's receptive fields, ignoring borders; null if they differ between positions. */
  theoreticalExtents(name: string, rank: number): ReadonlyMap<string, FieldExtents | null> {
    const own = Array.from({ length: rank }, (): FieldExtent => ({ stride: 1, low: 0, high: 0 }));
    return this.propagateBackwards<FieldExtents | null>(
      name,
      own,
      (fieldMapIndex, of) => {
        const through = this.fieldMaps[fieldMapIndex];
        return of && through ? operandExtents(through, of) : null;
      },
      (a, b) => (a === undefined ? b : a && b && unionExtents(a, b)),
    );
  }

  /** The projective field of these positions: the positions that they affect in every later value. */
  projectiveField(name: string, positions: Mask): ReadonlyMap<string, Mask> {
    const found = new Map<string, Mask>([[name, positions]]);
    for (const layer of this.layers) {
      if (layer.name === name || !layer.inputs.some((key) => found.has(key))) continue;
      const parts = new Map<number, Mask>();
      for (const [k, key] of layer.inputs.entries()) {
        const mask = found.get(key);
        if (mask !== undefined) parts.set(k + 1, mask);
      }
      for (const [reader, source, fieldMapIndex] of layer.dependencies.toReversed()) {
        const mask = parts.get(source);
        if (mask !== undefined) {
          parts.set(
            reader,
            unionMasks(
              parts.get(reader),
              mapMask(this.getMaskMappings(fieldMapIndex).toConsumers, mask),
            ),
          );
        }
      }
      const own = parts.get(0);
      if (own !== undefined) found.set(layer.name, unionMasks(found.get(layer.name), own));
    }
    return found;
  }
}
