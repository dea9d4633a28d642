// The dataset of a training: the data that its config names, fetched as blobs.

import { batchesPerEpoch, type ColumnRows, columnRows } from "./batches.ts";
import type { TrainingConfig } from "./records.ts";
import type { TrainingHost } from "./state.ts";

export interface Dataset {
  readonly config: TrainingConfig;
  readonly trainRows: readonly ColumnRows[];
  readonly heldOutRows: readonly ColumnRows[];
  /** A learning rate for each step from the config's `start_step`; undefined if the rate is a single number. */
  readonly learningRates: Float32Array | undefined;
}

export async function fetchDataset(host: TrainingHost, config: TrainingConfig): Promise<Dataset> {
  const bytes = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
  const get = (name: string) => {
    const known = bytes.get(name) ?? host.blob(name);
    bytes.set(name, known);
    return known;
  };
  const all = (which: "blob" | "held_out") =>
    Promise.all(config.columns.map(async (column) => columnRows(column, await get(column[which]))));
  const trainRows = await all("blob");
  const heldOutRows = config.held_out_count > 0 ? await all("held_out") : [];
  const rates = config.learning_rates === "" ? undefined : await get(config.learning_rates);
  return {
    config,
    trainRows,
    heldOutRows,
    learningRates: rates && new Float32Array(rates.slice().buffer),
  };
}

/** The learning rate of a step; `constantRate` if there is no schedule. */
export const learningRate = (
  { config, learningRates }: Dataset,
  constantRate: number,
  step: number,
): number =>
  learningRates?.[Math.max(0, Math.min(step - config.start_step, learningRates.length - 1))] ??
  constantRate;

/** Number of examples seen after a number of steps with the config's batch size. */
export const countExamplesSeen = (config: TrainingConfig, stepCount: number): number =>
  Math.floor(stepCount / batchesPerEpoch(config)) * config.example_count +
  (stepCount % batchesPerEpoch(config)) * config.batch_size;
