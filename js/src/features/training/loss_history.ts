// Loss history of a training: losses and accuracies of all steps, and held-out losses.
import type { HeldOutLoss, LossCurve } from "./state.ts";

export class LossHistory {
  losses: number[] = [];
  accuracies: number[] = [];
  heldOut: HeldOutLoss[] = [];

  /**
   * Unpack the format of Python's `pack_history` (live_training.py): two counts, losses, accuracies, rows of held-out
   * losses.
   */
  static unpack(bytes: Uint8Array<ArrayBuffer>): LossHistory {
    const numbers = new Float32Array(bytes.slice().buffer);
    const [count = 0, rows = 0] = numbers;
    const history = new LossHistory();
    history.losses = [...numbers.subarray(2, 2 + count)];
    history.accuracies = [...numbers.subarray(2 + count, 2 + 2 * count)];
    for (let k = 0; k < rows; k++) {
      const [step = 0, loss = 0, share = Number.NaN] = numbers.subarray(2 + 2 * count + 3 * k);
      history.heldOut.push([step, loss, Number.isNaN(share) ? null : share]);
    }
    return history;
  }

  /** How many numbers `unpack` reads for a curve. */
  static packedElementCount = ({ losses, heldOut }: LossCurve): number =>
    2 + 2 * losses.length + 3 * heldOut.length;

  /** A copy of the first `step` steps of a curve. */
  static upTo(curve: LossCurve, step: number): LossHistory {
    const history = new LossHistory();
    history.losses = curve.losses.slice(0, step);
    history.accuracies = curve.accuracies.slice(0, step);
    history.heldOut = curve.heldOut.filter(([at]) => at <= step);
    return history;
  }

  get stepCount(): number {
    return this.losses.length;
  }

  add(loss: number, accuracy: number): void {
    this.losses.push(loss);
    this.accuracies.push(accuracy);
  }

  /** Discard everything after `step` steps. */
  truncate(step: number): void {
    this.losses.length = Math.min(step, this.losses.length);
    this.accuracies.length = Math.min(step, this.accuracies.length);
    this.heldOut = this.heldOut.filter(([at]) => at <= step);
  }

  /** Two numbers for each step from `firstStep` on: its loss and its accuracy. */
  packFrom(firstStep: number): Float32Array<ArrayBuffer> {
    const found = new Float32Array(2 * (this.stepCount - firstStep));
    for (let k = 0; k < found.length / 2; k++) {
      found[2 * k] = this.losses[firstStep + k] ?? Number.NaN;
      found[2 * k + 1] = this.accuracies[firstStep + k] ?? Number.NaN;
    }
    return found;
  }

  /** A copy of the current curve. */
  snapshot(): LossCurve {
    return {
      losses: [...this.losses],
      accuracies: [...this.accuracies],
      heldOut: [...this.heldOut],
    };
  }
}
