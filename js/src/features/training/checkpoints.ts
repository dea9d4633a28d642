// Checkpoints of a training to inspect and restore, at intervals that grow with the step.
import type { Layout } from "../../plan/schema.ts";
import type { Checkpoint } from "./state.ts";

/** A tensor of the training state in its texture's layout. */
export interface PackedTensor {
  readonly textureRows: Float32Array;
  readonly layout: Layout;
}

/** The tensors of a training state by name. */
export type PackedTensors = ReadonlyMap<string, PackedTensor>;

/** A checkpoint with the data to restore it. */
export interface StoredCheckpoint extends Omit<Checkpoint, "isRestorable"> {
  readonly tensors: PackedTensors;
  /** Number of training examples seen. */
  readonly examplesSeen: number;
}

type CheckpointPosition = Pick<Checkpoint, "branchNumber" | "step">;

const MAX_PER_BRANCH = 12;
const MAX_BYTES = 2 ** 28;
const STEP_GROWTH = 1.6;
const MIN_STEP_GAP = 5;

/** The step at which the next checkpoint is due. */
export const nextCheckpointStep = (lastStep: number): number =>
  Math.max(lastStep + MIN_STEP_GAP, Math.ceil(lastStep * STEP_GROWTH));

/**
 * Append a checkpoint and drop redundant ones above the limits. Each branch keeps its first, its last and the
 * `isSelected` one. Otherwise the checkpoint with the closest neighbours on a logarithmic step axis is dropped.
 */
export function addCheckpoint<K extends CheckpointPosition>(
  checkpoints: readonly K[],
  newCheckpoint: K,
  sizeInBytes: (newCheckpoint: K) => number,
  isSelected: (newCheckpoint: K) => boolean,
): K[] {
  const bytesOf = (all: readonly K[]) => all.reduce((sum, each) => sum + sizeInBytes(each), 0);
  const found = [
    ...checkpoints.filter(
      ({ branchNumber, step }) => branchNumber !== 0 || step < newCheckpoint.step,
    ),
    newCheckpoint,
  ];
  const own = () => found.filter(({ branchNumber }) => branchNumber === newCheckpoint.branchNumber);
  while (own().length > 2 && (own().length > MAX_PER_BRANCH || bytesOf(found) > MAX_BYTES)) {
    const least = findRedundantCheckpoint(own(), isSelected);
    if (least === undefined) break;
    found.splice(found.indexOf(least), 1);
  }
  return found;
}

function findRedundantCheckpoint<K extends CheckpointPosition>(
  branchCheckpoints: readonly K[],
  isSelected: (one: K) => boolean,
): K | undefined {
  let [least, nearest]: [K | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
  for (let k = 1; k + 1 < branchCheckpoints.length; k++) {
    if (isSelected(branchCheckpoints[k] as K)) continue;
    const [before, after] = [
      branchCheckpoints[k - 1]?.step ?? 0,
      branchCheckpoints[k + 1]?.step ?? 0,
    ];
    const gap = Math.log((after + MIN_STEP_GAP) / (before + MIN_STEP_GAP));
    if (gap < nearest) [least, nearest] = [branchCheckpoints[k] as K, gap];
  }
  return least;
}

export function checkpointBytes({
  parameterArrays,
  tensors,
  predictions,
}: StoredCheckpoint): number {
  const rows = [...tensors.values()].map((one) => one.textureRows);
  const all = [...parameterArrays.values(), ...rows, predictions];
  return all.reduce((bytes, { byteLength }) => bytes + byteLength, 0);
}
