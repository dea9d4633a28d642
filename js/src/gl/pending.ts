// Inputs and weights as last written, kept on the CPU so that a lost context costs nothing.
import type { PlanHeader, Weight } from "../plan.ts";
import { elements } from "./check.ts";
import { listed } from "./messages.ts";
import type { PlanObjects, Weights } from "./objects.ts";
import type { Draw } from "./schedule.ts";
import { PlanError } from "./types.ts";

interface Written {
  /** Padded with zeros to the staging texture. */
  readonly data: Float32Array;
  written: boolean;
  dirty: boolean;
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
  private readonly weights = new Map<number, Replaced>();
  private readonly dirtyWeights = new Set<number>();

  constructor(plan: PlanHeader, weight: (hash: string) => Float32Array) {
    this.plan = plan;
    this.weight = weight;
    this.inputs = plan.inputs.map(({ staging }) => ({
      data: new Float32Array(this.size(staging)),
      written: false,
      dirty: false,
    }));
  }

  write(key: string, data: Float32Array): void {
    const index = this.plan.inputs.findIndex((input) => input.key === key);
    const input = this.plan.inputs[index];
    const place = this.inputs[index];
    if (input === undefined || place === undefined) {
      const keys = listed(this.plan.inputs.map((one) => one.key));
      throw new PlanError(`no input ${JSON.stringify(key)}; this network has ${keys}`);
    }
    const count = elements(input.shape);
    if (data.length !== count) {
      throw new PlanError(
        `input ${JSON.stringify(key)} has ${count} numbers (${input.shape.join("×")}), not ${data.length}`,
      );
    }
    place.data.set(data);
    place.written = true;
    place.dirty = true;
    this.version += 1;
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
    this.version += 1;
  }

  /** The rows of the Plan's weight number `index`, as last written. */
  data(index: number): Float32Array {
    const { texture, hash } = this.recordOf(index);
    return this.weights.get(texture)?.data ?? this.weight(hash);
  }

  /** What is known of those rows: their hash, or "". */
  hash(index: number): string {
    const { texture, hash } = this.recordOf(index);
    return (this.weights.get(texture) ?? { hash }).hash;
  }

  /** Keys of the inputs that nobody has written yet. */
  get missing(): string[] {
    return this.plan.inputs.filter((_, k) => !this.inputs[k]?.written).map((input) => input.key);
  }

  /** Uploads what has changed; returns the passes that spread new inputs. */
  flush(objects: PlanObjects): Draw["step"][] {
    for (const texture of this.dirtyWeights) {
      const replaced = this.weights.get(texture);
      if (replaced !== undefined) objects.replace(texture, replaced.data, replaced.hash);
    }
    this.dirtyWeights.clear();
    const dirty = this.plan.inputs.filter((input, k) => {
      const place = this.inputs[k];
      if (!place?.dirty) return false;
      objects.write(input.staging, place.data);
      place.dirty = false;
      return true;
    });
    return dirty.map((input) => input.step);
  }

  /** Everything is to be written again, into new objects with these weights. */
  restart(): void {
    this.dirtyWeights.clear();
    for (const place of this.inputs) place.dirty = place.written;
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
