// What a training is given: its Course's data, fetched.

import { perEpoch, type Rows, rowsOf } from "./batches.ts";
import type { Course } from "./records.ts";
import type { TrainingHost } from "./state.ts";

export interface Given {
  readonly course: Course;
  readonly rows: readonly Rows[];
  readonly heldOutRows: readonly Rows[];
  /** A learning rate for each step from the Course's `begin` on; undefined where one number is set. */
  readonly rates: Float32Array | undefined;
}

export async function fetched(host: TrainingHost, course: Course): Promise<Given> {
  const bytes = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
  const get = (name: string) => {
    const known = bytes.get(name) ?? host.blob(name);
    bytes.set(name, known);
    return known;
  };
  const all = (which: "blob" | "held_out") =>
    Promise.all(course.columns.map(async (column) => rowsOf(column, await get(column[which]))));
  const rows = await all("blob");
  const heldOutRows = course.held_out > 0 ? await all("held_out") : [];
  const rates = course.rates === "" ? undefined : await get(course.rates);
  return {
    course,
    rows,
    heldOutRows,
    rates: rates && new Float32Array(rates.slice().buffer),
  };
}

/** The learning rate of a step. */
export const rateOf = ({ course, rates }: Given, set: number, step: number): number =>
  rates?.[Math.max(0, Math.min(step - course.begin, rates.length - 1))] ?? set;

/** Examples that so many steps have seen, where all had this batch size. */
export const seenBy = (course: Course, steps: number): number =>
  Math.floor(steps / perEpoch(course)) * course.count + (steps % perEpoch(course)) * course.batch;
