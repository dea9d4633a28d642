// History of a training: its loss curve, abandoned branches, and checkpoints.

import { addCheckpoint, checkpointBytes, type StoredCheckpoint } from "./checkpoints.ts";
import { LossHistory } from "./loss_history.ts";
import type { LossCurve } from "./state.ts";

const MAX_BRANCHES = 6;

export class TrainingHistory {
  lossHistory = new LossHistory();
  checkpoints: readonly StoredCheckpoint[] = [];
  /** The abandoned curves; branch number 1 is the first. */
  branches: readonly LossCurve[] = [];
  private lastId = 0;

  /** Store the current state as a checkpoint; the checkpoint with id `selectedId` is never dropped. */
  add(checkpoint: Omit<StoredCheckpoint, "id" | "branchNumber">, selectedId: number | null): void {
    this.lastId += 1;
    const one = { ...checkpoint, id: this.lastId, branchNumber: 0 };
    this.checkpoints = addCheckpoint(
      this.checkpoints,
      one,
      checkpointBytes,
      ({ id }) => id === selectedId,
    );
  }

  get(id: number): StoredCheckpoint | undefined {
    return this.checkpoints.find((kept) => kept.id === id);
  }

  /** The last checkpoint of the current curve. */
  get lastCheckpoint(): StoredCheckpoint | undefined {
    return this.checkpoints.findLast(({ branchNumber }) => branchNumber === 0);
  }

  /**
   * Continue from a checkpoint; with `keepBranch` the current curve becomes a branch. Returns the number of steps that
   * the new curve and the previous one share.
   */
  restore(checkpoint: StoredCheckpoint, keepBranch: boolean): number {
    const left = this.lossHistory.snapshot();
    const own =
      checkpoint.branchNumber === 0 ? left : (this.branches[checkpoint.branchNumber - 1] ?? left);
    const common = Math.min(commonPrefixLength(left.losses, own.losses), checkpoint.step);
    const newBranch = keepBranch && left.losses.length > common ? this.branches.length + 1 : -1;
    if (newBranch > 0) this.branches = [...this.branches, left];
    this.checkpoints = this.checkpoints.flatMap((kept) => {
      if (kept.branchNumber === 0 && kept.step > common) {
        return newBranch > 0 ? [{ ...kept, branchNumber: newBranch }] : [];
      }
      const isOwn = kept.branchNumber === checkpoint.branchNumber && kept.step <= checkpoint.step;
      return [isOwn ? { ...kept, branchNumber: 0 } : kept];
    });
    this.lossHistory = LossHistory.upTo(own, checkpoint.step);
    if (this.branches.length > MAX_BRANCHES) this.dropOldestBranch();
    this.checkpoints = [...this.checkpoints].sort(
      (a, b) => a.branchNumber - b.branchNumber || a.step - b.step,
    );
    return common;
  }

  private dropOldestBranch(): void {
    this.branches = this.branches.slice(1);
    this.checkpoints = this.checkpoints.flatMap((kept) => {
      if (kept.branchNumber === 1) return [];
      return [kept.branchNumber > 1 ? { ...kept, branchNumber: kept.branchNumber - 1 } : kept];
    });
  }
}

/** The length of the common prefix of two lists. */
function commonPrefixLength(one: readonly number[], other: readonly number[]): number {
  const most = Math.min(one.length, other.length);
  for (let k = 0; k < most; k++) if (one[k] !== other[k]) return k;
  return most;
}
