// What a training is given: its Course's data, fetched.

import { batchesPerEpoch, type ColumnRows, columnRows } from "./batches.ts";
import type { Course } from "./records.ts";
import type { TrainingHost } from "./state.ts";

export interface Dataset {
  readonly config: Course;
  readonly trainRows: readonly ColumnRows[];
  readonly heldOutRows: readonly ColumnRows[];
  /** A learning rate for each step from the Course's `begin` on; undefined where one number is set. */
  readonly learningRates: Float32Array | undefined;
}

export async function fetchDataset(host: TrainingHost, config: Course): Promise<Dataset> {
  const bytes = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
  const get = (name: string) => {
    const known = bytes.get(name) ?? host.blob(name);
    bytes.set(name, known);
    return known;
  };
  const all = (which: "blob" | "held_out") =>
    Promise.all(config.columns.map(async (column) => columnRows(column, await get(column[which]))));
  const trainRows = await all("blob");
  const heldOutRows = config.held_out > 0 ? await all("held_out") : [];
  const rates = config.rates === "" ? undefined : await get(config.rates);
  return {
    config,
    trainRows,
    heldOutRows,
    learningRates: rates && new Float32Array(rates.slice().buffer),
  };
}

/** The learning rate of a step. */
export const learningRate = (
  { config, learningRates }: Dataset,
  set: number,
  step: number,
): number =>
  learningRates?.[Math.max(0, Math.min(step - config.begin, learningRates.length - 1))] ?? set;

/** Examples that so many steps have seen, where all had this batch size. */
export const examplesSeen = (course: Course, steps: number): number =>
  Math.floor(steps / batchesPerEpoch(course)) * course.count +
  (steps % batchesPerEpoch(course)) * course.batch;
