// Inputs and weights as last written, kept on the CPU so that a lost context can be restored.

import { elementCount } from "../plan/constraints.ts";
import { formatList, noPictureInputError } from "../plan/error_text.ts";
import { requiredInputs } from "../plan/required_inputs.ts";
import type { PassDraw } from "../plan/run_slices.ts";
import { type Patch, PlanError } from "../plan/runtime.ts";
import type { Input, PlanHeader, Weight } from "../plan/schema.ts";
import type { InputPicture, PictureUploader } from "./picture_upload.ts";
import type { PlanObjects, WeightSource } from "./plan_objects.ts";

interface QueuedInput {
  /** Zero-padded to the size of the staging texture. */
  readonly data: Float32Array;
  hasData: boolean;
  isDirty: boolean;
  /** Used instead of `data`; uploaded by the next run if `hasNewPicture`. */
  picture?: InputPicture | undefined;
  hasNewPicture: boolean;
}

interface QueuedWeight {
  readonly data: Float32Array;
  readonly hash: string;
}

export class UploadQueue implements WeightSource {
  /** Counts writes. */
  writeVersion = 0;
  private readonly plan: PlanHeader;
  private readonly loadWeight: (hash: string) => Float32Array;
  private readonly inputs: readonly QueuedInput[];
  /** Inputs whose staging texture is new but not yet spread to other textures. */
  private readonly stagedInputs = new Set<Input>();
  private readonly weights = new Map<number, QueuedWeight>();
  private readonly dirtyWeights = new Set<number>();
  /** Patches on top of the weights, in order. */
  private readonly patches = new Map<number, Patch[]>();
  private readonly dirtyPatches = new Set<Patch>();

  constructor(plan: PlanHeader, loadWeight: (hash: string) => Float32Array) {
    this.plan = plan;
    this.loadWeight = loadWeight;
    this.inputs = plan.inputs.map(({ staging }) => ({
      data: new Float32Array(this.textureFloatCount(staging)),
      hasData: false,
      isDirty: false,
      hasNewPicture: false,
    }));
  }

  write(key: string, data: Float32Array): void {
    const [input, place] = this.findInput(key);
    const count = elementCount(input.shape);
    if (data.length !== count) {
      throw new PlanError(
        `input ${JSON.stringify(key)} has ${count} numbers (${input.shape.join("×")}), not ${data.length}`,
      );
    }
    place.data.set(data);
    place.hasData = true;
    place.isDirty = true;
    place.picture = undefined;
    place.hasNewPicture = false;
    this.writeVersion += 1;
  }

  feed(key: string, inputPicture: InputPicture): void {
    const [{ fit }, place] = this.findInput(key);
    if (fit === "") throw noPictureInputError(key);
    place.picture = inputPicture;
    place.hasNewPicture = true;
    this.writeVersion += 1;
  }

  /** Whether the next run has a picture to upload. */
  get hasNewPicture(): boolean {
    return this.inputs.some(({ hasNewPicture }) => hasNewPicture);
  }

  setWeight(texture: number, data: Float32Array, hash = ""): void {
    if (!this.plan.weights.some((weight) => weight.texture === texture)) {
      throw new PlanError(`texture ${texture} holds no weight`);
    }
    if (data.length !== this.textureFloatCount(texture)) {
      throw new PlanError(
        `weight texture ${texture} has ${this.textureFloatCount(texture)} numbers, not ${data.length}`,
      );
    }
    this.weights.set(texture, { data, hash });
    this.dirtyWeights.add(texture);
    for (const patch of this.patches.get(texture) ?? []) this.dirtyPatches.delete(patch);
    this.patches.delete(texture);
    this.writeVersion += 1;
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
    this.writeVersion += 1;
  }

  /** The rows of the Plan's weight `index`, as last written. */
  weightData(index: number): Float32Array {
    const { texture, hash } = this.weightRecord(index);
    return this.applyPatches(texture, this.weights.get(texture)?.data ?? this.loadWeight(hash));
  }

  /** The hash of those rows; "" if unknown. */
  weightHash(index: number): string {
    const { texture, hash } = this.weightRecord(index);
    return this.patches.has(texture) ? "" : (this.weights.get(texture) ?? { hash }).hash;
  }

  /** Keys of the inputs that have not been written and that no weight fills. */
  get missingInputs(): string[] {
    const has = (place: QueuedInput | undefined) => place?.hasData || place?.picture !== undefined;
    const written = this.plan.inputs.filter((_, k) => has(this.inputs[k]));
    return requiredInputs(this.plan)
      .filter((input) => !written.includes(input))
      .map((input) => input.key);
  }

  /** Upload changed weights. */
  flushWeights(objects: PlanObjects): void {
    for (const texture of this.dirtyWeights) {
      const replaced = this.weights.get(texture);
      if (replaced !== undefined) objects.replaceWeight(texture, replaced.data, replaced.hash);
    }
    this.dirtyWeights.clear();
    for (const patch of this.dirtyPatches) {
      const index = this.plan.weights.findIndex(({ texture }) => texture === patch.texture);
      objects.patchWeight(patch, () => this.weightData(index));
    }
    this.dirtyPatches.clear();
  }

  /**
   * Upload all changes; returns the passes that spread new inputs. `pictureUploader` exists if an input is fed with
   * pictures.
   */
  flush(objects: PlanObjects, pictureUploader?: PictureUploader): PassDraw["pass"][] {
    this.flushWeights(objects);
    for (const [k, input] of this.plan.inputs.entries()) {
      const place = this.inputs[k];
      if (place === undefined) continue;
      const { picture } = place;
      if (picture === undefined) pictureUploader?.freeInput(input.key);
      else if (place.hasNewPicture && pictureUploader !== undefined) {
        place.hasNewPicture = false;
        place.picture = undefined; // a picture that throws is not tried again
        if (pictureUploader.drawPicture(input, picture, objects.stagingTarget(input.staging))) {
          place.isDirty = false;
          this.stagedInputs.add(input);
        }
        place.picture = picture;
      }
      if (!place.isDirty) continue;
      objects.write(input.staging, place.data);
      place.isDirty = false;
      this.stagedInputs.add(input);
    }
    const steps = Array.from(this.stagedInputs, ({ pack_pass }) => pack_pass);
    this.stagedInputs.clear();
    return steps;
  }

  /** Mark everything for upload, for new objects that already have the current weights. */
  markAllDirty(): void {
    this.dirtyWeights.clear();
    this.dirtyPatches.clear();
    for (const place of this.inputs) {
      place.isDirty = place.hasData;
      place.hasNewPicture = place.picture !== undefined;
    }
  }

  private findInput(key: string): [Input, QueuedInput] {
    const index = this.plan.inputs.findIndex((input) => input.key === key);
    const input = this.plan.inputs[index];
    const place = this.inputs[index];
    if (input !== undefined && place !== undefined) return [input, place];
    const keys = formatList(this.plan.inputs.map((one) => one.key));
    throw new PlanError(`no input ${JSON.stringify(key)}; this network has ${keys}`);
  }

  /** A copy of the rows with the texture's patches applied, or the rows themselves without patches. */
  private applyPatches(texture: number, rows: Float32Array): Float32Array {
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

  private weightRecord(index: number): Weight {
    const weight = this.plan.weights[index];
    if (weight === undefined) throw new PlanError(`the Plan has no weight ${index}`);
    return weight;
  }

  private textureFloatCount(texture: number): number {
    const { width = 0, height = 0, layers = 0 } = this.plan.textures[texture] ?? {};
    return width * height * layers * 4;
  }
}
