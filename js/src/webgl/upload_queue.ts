// Inputs and weights as last written, kept on the CPU so that a lost context costs nothing.

import { elements } from "../plan/constraints.ts";
import { listed, noPictures } from "../plan/error_text.ts";
import { needed } from "../plan/required_inputs.ts";
import { type Patch, PlanError } from "../plan/runtime.ts";
import type { Draw } from "../plan/schedule.ts";
import type { Input, PlanHeader, Weight } from "../plan/schema.ts";
import type { Feed, Feeding } from "./input_feed.ts";
import type { PlanObjects, Weights } from "./objects.ts";

interface Written {
  /** Padded with zeros to the staging texture. */
  readonly data: Float32Array;
  written: boolean;
  dirty: boolean;
  /** Taken instead of `data` by the run that finds it fresh. */
  fed?: Feed | undefined;
  fresh: boolean;
}

interface Replaced {
  readonly data: Float32Array;
  readonly hash: string;
}

export class Pending implements Weights {
  /** Counts writes. */
  version = 0;
  private readonly plan: PlanHeader;
  private readonly weight: (hash: string) => Float32Array;
  private readonly inputs: readonly Written[];
  /** New in their staging textures, and in no others yet. */
  private readonly unspread = new Set<Input>();
  private readonly weights = new Map<number, Replaced>();
  private readonly dirtyWeights = new Set<number>();
  /** On top of those, in their order. */
  private readonly patches = new Map<number, Patch[]>();
  private readonly dirtyPatches = new Set<Patch>();

  constructor(plan: PlanHeader, weight: (hash: string) => Float32Array) {
    this.plan = plan;
    this.weight = weight;
    this.inputs = plan.inputs.map(({ staging }) => ({
      data: new Float32Array(this.size(staging)),
      written: false,
      dirty: false,
      fresh: false,
    }));
  }

  write(key: string, data: Float32Array): void {
    const [input, place] = this.find(key);
    const count = elements(input.shape);
    if (data.length !== count) {
      throw new PlanError(
        `input ${JSON.stringify(key)} has ${count} numbers (${input.shape.join("×")}), not ${data.length}`,
      );
    }
    place.data.set(data);
    place.written = true;
    place.dirty = true;
    place.fed = undefined;
    place.fresh = false;
    this.version += 1;
  }

  feed(key: string, fed: Feed): void {
    const [{ fit }, place] = this.find(key);
    if (fit === "") throw noPictures(key);
    place.fed = fed;
    place.fresh = true;
    this.version += 1;
  }

  /** Some picture is to be taken by the next run. */
  get isFed(): boolean {
    return this.inputs.some(({ fresh }) => fresh);
  }

  setWeight(texture: number, data: Float32Array, hash = ""): void {
    if (!this.plan.weights.some((weight) => weight.texture === texture)) {
      throw new PlanError(`texture ${texture} holds no weight`);
    }
    if (data.length !== this.size(texture)) {
      throw new PlanError(
        `weight texture ${texture} has ${this.size(texture)} numbers, not ${data.length}`,
      );
    }
    this.weights.set(texture, { data, hash });
    this.dirtyWeights.add(texture);
    for (const patch of this.patches.get(texture) ?? []) this.dirtyPatches.delete(patch);
    this.patches.delete(texture);
    this.version += 1;
  }

  patchWeight(patch: Patch): void {
    const { texture, layer, x, y, width, height, data } = patch;
    const size = this.plan.textures[texture];
    if (size === undefined || !this.plan.weights.some((weight) => weight.texture === texture)) {
      throw new PlanError(`texture ${texture} holds no weight`);
    }
    const fits = x + width <= size.width && y + height <= size.height && layer < size.layers;
    if (!fits || data.length !== width * height * 4) {
      throw new PlanError(
        `a patch of ${width}×${height} texels at ${x}, ${y} of layer ${layer} does not fit into weight texture ${texture}`,
      );
    }
    this.patches.set(texture, [...(this.patches.get(texture) ?? []), patch]);
    this.dirtyPatches.add(patch);
    this.version += 1;
  }

  /** The rows of the Plan's weight number `index`, as last written. */
  data(index: number): Float32Array {
    const { texture, hash } = this.recordOf(index);
    return this.patched(texture, this.weights.get(texture)?.data ?? this.weight(hash));
  }

  /** What is known of those rows: their hash, or "". */
  hash(index: number): string {
    const { texture, hash } = this.recordOf(index);
    return this.patches.has(texture) ? "" : (this.weights.get(texture) ?? { hash }).hash;
  }

  /** Keys of the inputs that nobody has written yet, and that no weight fills. */
  get missing(): string[] {
    const has = (place: Written | undefined) => place?.written || place?.fed !== undefined;
    const written = this.plan.inputs.filter((_, k) => has(this.inputs[k]));
    return needed(this.plan)
      .filter((input) => !written.includes(input))
      .map((input) => input.key);
  }

  /** Uploads weights that have changed. */
  flushWeights(objects: PlanObjects): void {
    for (const texture of this.dirtyWeights) {
      const replaced = this.weights.get(texture);
      if (replaced !== undefined) objects.replace(texture, replaced.data, replaced.hash);
    }
    this.dirtyWeights.clear();
    for (const patch of this.dirtyPatches) {
      const index = this.plan.weights.findIndex(({ texture }) => texture === patch.texture);
      objects.patch(patch, () => this.data(index));
    }
    this.dirtyPatches.clear();
  }

  /** Uploads what has changed; returns the passes that spread new inputs. `feeding` is there where one is fed. */
  flush(objects: PlanObjects, feeding?: Feeding): Draw["step"][] {
    this.flushWeights(objects);
    for (const [k, input] of this.plan.inputs.entries()) {
      const place = this.inputs[k];
      if (place === undefined) continue;
      const { fed } = place;
      if (fed === undefined) feeding?.forget(input.key);
      else if (place.fresh && feeding !== undefined) {
        place.fresh = false;
        place.fed = undefined; // what cannot be taken is not tried again
        if (feeding.take(input, fed, objects.surface(input.staging))) {
          place.dirty = false;
          this.unspread.add(input);
        }
        place.fed = fed;
      }
      if (!place.dirty) continue;
      objects.write(input.staging, place.data);
      place.dirty = false;
      this.unspread.add(input);
    }
    const steps = Array.from(this.unspread, ({ step }) => step);
    this.unspread.clear();
    return steps;
  }

  /** Everything is to be written again, into new objects with these weights. */
  restart(): void {
    this.dirtyWeights.clear();
    this.dirtyPatches.clear();
    for (const place of this.inputs) {
      place.dirty = place.written;
      place.fresh = place.fed !== undefined;
    }
  }

  private find(key: string): [Input, Written] {
    const index = this.plan.inputs.findIndex((input) => input.key === key);
    const input = this.plan.inputs[index];
    const place = this.inputs[index];
    if (input !== undefined && place !== undefined) return [input, place];
    const keys = listed(this.plan.inputs.map((one) => one.key));
    throw new PlanError(`no input ${JSON.stringify(key)}; this network has ${keys}`);
  }

  /** A copy of the rows with the texture's patches, or the rows themselves where there are none. */
  private patched(texture: number, rows: Float32Array): Float32Array {
    const patches = this.patches.get(texture);
    const { width: across = 0, height: down = 0 } = this.plan.textures[texture] ?? {};
    if (patches === undefined) return rows;
    const copy = rows.slice();
    for (const { layer, x, y, width, height, data } of patches) {
      for (let row = 0; row < height; row++) {
        const at = ((layer * down + y + row) * across + x) * 4;
        copy.set(data.subarray(row * width * 4, (row + 1) * width * 4), at);
      }
    }
    return copy;
  }

  private recordOf(index: number): Weight {
    const weight = this.plan.weights[index];
    if (weight === undefined) throw new PlanError(`the Plan has no weight ${index}`);
    return weight;
  }

  private size(texture: number): number {
    const { width = 0, height = 0, layers = 0 } = this.plan.textures[texture] ?? {};
    return width * height * layers * 4;
  }
}
