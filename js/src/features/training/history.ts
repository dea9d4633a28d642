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

  /** Store the current state as a checkpoint; the checkpoint with id `chosen` is never dropped. */
  add(kept: Omit<StoredCheckpoint, "id" | "branch">, chosen: number | null): void {
    this.lastId += 1;
    const one = { ...kept, id: this.lastId, branch: 0 };
    this.checkpoints = addCheckpoint(
      this.checkpoints,
      one,
      checkpointBytes,
      ({ id }) => id === chosen,
    );
  }

  get(id: number): StoredCheckpoint | undefined {
    return this.checkpoints.find((kept) => kept.id === id);
  }

  /** The last checkpoint of the current curve. */
  get lastCheckpoint(): StoredCheckpoint | undefined {
    return this.checkpoints.findLast(({ branch }) => branch === 0);
  }

  /**
   * Continue from a checkpoint; with `keep` the current curve becomes a branch. Returns the number of steps that the
   * new curve and the previous one share.
   */
  restore(to: StoredCheckpoint, keep: boolean): number {
    const left = this.lossHistory.snapshot();
    const own = to.branch === 0 ? left : (this.branches[to.branch - 1] ?? left);
    const common = Math.min(commonPrefixLength(left.losses, own.losses), to.step);
    const newBranch = keep && left.losses.length > common ? this.branches.length + 1 : -1;
    if (newBranch > 0) this.branches = [...this.branches, left];
    this.checkpoints = this.checkpoints.flatMap((kept) => {
      if (kept.branch === 0 && kept.step > common) {
        return newBranch > 0 ? [{ ...kept, branch: newBranch }] : [];
      }
      const isOwn = kept.branch === to.branch && kept.step <= to.step;
      return [isOwn ? { ...kept, branch: 0 } : kept];
    });
    this.lossHistory = LossHistory.upTo(own, to.step);
    if (this.branches.length > MAX_BRANCHES) this.dropOldestBranch();
    this.checkpoints = [...this.checkpoints].sort((a, b) => a.branch - b.branch || a.step - b.step);
    return common;
  }

  private dropOldestBranch(): void {
    this.branches = this.branches.slice(1);
    this.checkpoints = this.checkpoints.flatMap((kept) => {
      if (kept.branch === 1) return [];
      return [kept.branch > 1 ? { ...kept, branch: kept.branch - 1 } : kept];
    });
  }
}

/** The length of the common prefix of two lists. */
function commonPrefixLength(one: readonly number[], other: readonly number[]): number {
  const most = Math.min(one.length, other.length);
  for (let k = 0; k < most; k++) if (one[k] !== other[k]) return k;
  return most;
}
