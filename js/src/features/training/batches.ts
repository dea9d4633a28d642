// Training batches: the choice and order of examples, and their values in the network's format.
import { noiseArray } from "../sources/noise.ts";
import { permute } from "../sources/shuffle.ts";
import type { Column, TrainingConfig } from "./records.ts";

/** The rows of a column, for the training or the held-out examples. */
export interface ColumnRows {
  readonly column: Column;
  readonly data: Uint8Array | Float32Array;
  /** Elements per row. */
  readonly rowSize: number;
}

export interface Batch {
  /** Number of real examples; the rest is padding. */
  readonly exampleCount: number;
  /** By the input's key in the Plan. */
  readonly inputs: ReadonlyMap<string, Float32Array>;
}

export function columnRows(column: Column, bytes: Uint8Array<ArrayBuffer>): ColumnRows {
  const { buffer, byteOffset, byteLength } = bytes;
  const wide = column.dtype === "uint8" ? 1 : 4;
  // A Float32Array's offset must be a multiple of four bytes.
  const aligned = byteOffset % wide === 0 ? bytes : bytes.slice();
  const data =
    wide === 1
      ? bytes
      : new Float32Array(
          aligned === bytes ? buffer : aligned.buffer,
          aligned.byteOffset,
          byteLength / 4,
        );
  const rowSize = column.shape.reduce((product, length) => product * length, 1);
  return { column, data, rowSize };
}

/** Number of batches per epoch. */
export const batchesPerEpoch = ({ example_count, batch_size }: TrainingConfig): number =>
  Math.ceil(example_count / batch_size);

/**
 * The examples of a step, counted from 0; fewer than a batch at the end of an epoch. Epochs are counted from the
 * config's `start_step`, and each has its own order.
 */
export function batchExamples(config: TrainingConfig, step: number): number[] {
  const { start_step, example_count, batch_size, shuffle } = config;
  const [seed, own] =
    step < start_step ? [config.seed, step] : [config.seed + start_step, step - start_step];
  const epoch = Math.floor(own / batchesPerEpoch(config));
  const first = (own % batchesPerEpoch(config)) * batch_size;
  const places = Array.from(
    { length: Math.min(batch_size, example_count - first) },
    (_, k) => first + k,
  );
  return shuffle ? places.map((place) => permute(place, example_count, seed + epoch, 1)) : places;
}

/** Build a batch of these examples; `inputKeys` maps each column's role to the key of a Plan input. */
export function makeBatch(
  rows: readonly ColumnRows[],
  examples: readonly number[],
  batchSize: number,
  inputKeys: Readonly<Record<string, string>>,
): Batch {
  const inputs = new Map<string, Float32Array>();
  for (const { column, data, rowSize: each } of rows) {
    const found = new Float32Array(batchSize * each);
    for (let k = 0; k < batchSize; k++) {
      const from = (examples[k] ?? examples[0] ?? 0) * each;
      const row = data.subarray(from, from + each);
      if (column.scale === 1) found.set(row, k * each);
      else for (let at = 0; at < each; at++) found[k * each + at] = (row[at] ?? 0) * column.scale;
    }
    inputs.set(inputKeys[column.key] ?? "", found);
  }
  if (inputKeys.weights !== undefined) {
    const weights = new Float32Array(batchSize);
    weights.fill(1, 0, examples.length);
    inputs.set(inputKeys.weights, weights);
  }
  return { exampleCount: examples.length, inputs };
}

/** Add noise with a standard deviation to the network's inputs, different in each step. */
export function addNoise(batch: Batch, config: TrainingConfig, std: number, step: number): void {
  if (std === 0) return;
  for (const [number, { key }] of config.columns.entries()) {
    const data = key === "target" ? undefined : batch.inputs.get(config.inputs[key] ?? "");
    if (data === undefined) continue;
    const noise = noiseArray(data.length, (config.seed + step * 16 + number) >>> 0, 0, std);
    for (let at = 0; at < data.length; at++) data[at] = (data[at] ?? 0) + (noise[at] ?? 0);
  }
}

/**
 * The scalars of a step by role, restricted to those that the Plan takes: see `step_scalars` in
 * nbglcnn.features.training.optimizers.
 */
export function stepScalars(
  config: TrainingConfig,
  stepLearningRate: number,
  step: number,
): Map<string, number> {
  const { inputs, betas, seed } = config;
  const [first = 0, second = 0] = betas.map((beta) => 1 - beta ** (step + 1));
  const known: Readonly<Record<string, number>> = {
    lr: stepLearningRate,
    step_size: stepLearningRate / first,
    root_correction: second ** -0.5,
    // Float32 represents integers up to 2^24 exactly.
    seed: permute(step % 2 ** 24, 2 ** 24, seed, 1),
    steps: step + 1,
  };
  return new Map(Object.entries(known).filter(([what]) => inputs[what] !== undefined));
}
