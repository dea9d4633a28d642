// Checkpoints of a training to inspect and restore, at intervals that grow with the step.
import type { Layout } from "../../plan/schema.ts";
import type { Checkpoint } from "./state.ts";

/** A tensor of the training state in its texture's layout. */
export interface PackedTensor {
  readonly rows: Float32Array;
  readonly layout: Layout;
}

/** The tensors of a training state by name. */
export type Tensors = ReadonlyMap<string, PackedTensor>;

/** A checkpoint with the data to restore it. */
export interface StoredCheckpoint extends Omit<Checkpoint, "fits"> {
  readonly tensors: Tensors;
  /** Number of training examples seen. */
  readonly examples: number;
}

type CheckpointPosition = Pick<Checkpoint, "branch" | "step">;

const MAX_PER_BRANCH = 12;
const MAX_BYTES = 2 ** 28;
const STEP_GROWTH = 1.6;
const MIN_STEP_GAP = 5;

/** The step at which the next checkpoint is due. */
export const nextCheckpointStep = (last: number): number =>
  Math.max(last + MIN_STEP_GAP, Math.ceil(last * STEP_GROWTH));

/**
 * Append a checkpoint and drop redundant ones above the limits. Each branch keeps its first, its last and the `chosen`
 * one. Otherwise the checkpoint with the closest neighbours on a logarithmic step axis is dropped.
 */
export function addCheckpoint<K extends CheckpointPosition>(
  kept: readonly K[],
  one: K,
  bytes: (one: K) => number,
  chosen: (one: K) => boolean,
): K[] {
  const bytesOf = (all: readonly K[]) => all.reduce((sum, each) => sum + bytes(each), 0);
  const found = [...kept.filter(({ branch, step }) => branch !== 0 || step < one.step), one];
  const own = () => found.filter(({ branch }) => branch === one.branch);
  while (own().length > 2 && (own().length > MAX_PER_BRANCH || bytesOf(found) > MAX_BYTES)) {
    const least = findRedundant(own(), chosen);
    if (least === undefined) break;
    found.splice(found.indexOf(least), 1);
  }
  return found;
}

function findRedundant<K extends CheckpointPosition>(
  line: readonly K[],
  chosen: (one: K) => boolean,
): K | undefined {
  let [least, nearest]: [K | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
  for (let k = 1; k + 1 < line.length; k++) {
    if (chosen(line[k] as K)) continue;
    const [before, after] = [line[k - 1]?.step ?? 0, line[k + 1]?.step ?? 0];
    const gap = Math.log((after + MIN_STEP_GAP) / (before + MIN_STEP_GAP));
    if (gap < nearest) [least, nearest] = [line[k] as K, gap];
  }
  return least;
}

export function checkpointBytes({ arrays, tensors, predictions }: StoredCheckpoint): number {
  const rows = [...tensors.values()].map((one) => one.rows);
  const all = [...arrays.values(), ...rows, predictions];
  return all.reduce((bytes, { byteLength }) => bytes + byteLength, 0);
}
