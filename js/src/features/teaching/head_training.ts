// Head training in time slices between frames, with held-out evaluation.
import { argmax, fitHead, heldOutMask, type LinearHead, probabilities } from "./head.ts";

/** Longest time that training blocks the page, so that frames continue. */
const SLICE_MS = 12;

/** The task in progress for display, with its progress counts; null if there is none. */
export interface BusyStatus {
  readonly task: "training" | "computing" | "coming";
  readonly done: number;
  readonly total: number;
}

export interface TrainedHead {
  readonly linearHead: LinearHead;
  /** Correct predictions on the training examples. */
  readonly correctCount: number;
  /** Correct predictions on the last fifth of each class, by a head trained on the other examples. */
  readonly heldOutCorrectCount: number;
  readonly heldOutCount: number;
}

/** Thrown when another training replaces this one. */
export class TrainingSuperseded extends Error {}

/** Train a head. Throws TrainingSuperseded as soon as `isWanted()` is false. */
export async function trainHead(
  features: readonly Float32Array[],
  labels: readonly number[],
  classCount: number,
  isWanted: () => boolean,
): Promise<TrainedHead> {
  let slice = performance.now();
  const breathe = (): Promise<void> | undefined => {
    if (!isWanted()) throw new TrainingSuperseded();
    if (performance.now() - slice < SLICE_MS) return undefined;
    return new Promise((done) =>
      setTimeout(() => {
        slice = performance.now();
        done();
      }),
    );
  };
  const fitted = (which: readonly number[]): Promise<LinearHead> =>
    fitHead(
      which.map((k) => features[k] ?? new Float32Array()),
      which.map((k) => labels[k] ?? 0),
      classCount,
      breathe,
    );
  const rights = (by: LinearHead, which: readonly number[]): number =>
    which.filter((k) => argmax(probabilities(by, features[k] ?? new Float32Array())) === labels[k])
      .length;
  const all = [...labels.keys()];
  const held = heldOutMask(labels);
  const tested = all.filter((k) => held[k]);
  const linearHead = await fitted(all);
  const without = tested.length > 0 ? await fitted(all.filter((k) => !held[k])) : linearHead;
  if (!isWanted()) throw new TrainingSuperseded();
  const heldOutCount = tested.length;
  return {
    linearHead,
    correctCount: rights(linearHead, all),
    heldOutCorrectCount: rights(without, tested),
    heldOutCount,
  };
}
