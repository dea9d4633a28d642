// Trains a head in slices between frames, and checks how it would do.
import { argmax, fitHead, heldOutMask, type LinearHead, probabilities } from "./head.ts";

/** Training may hold the page for so long, so that frames go on. */
const SLICE_MS = 12;

/** What is being done, for people; null for nothing. */
export interface BusyStatus {
  readonly task: "training" | "computing" | "coming";
  readonly done: number;
  readonly total: number;
}

export interface TrainedHead {
  readonly linear: LinearHead;
  /** Of the examples that it learned from. */
  readonly right: number;
  /** Of the last fifth of each class, by a head that learned from the others. */
  readonly heldRight: number;
  readonly heldCount: number;
}

/** A training that another one has replaced. */
export class TrainingSuperseded extends Error {}

/** Throws Stopped as soon as nobody wants it any more. */
export async function trainHead(
  features: readonly Float32Array[],
  labels: readonly number[],
  classes: number,
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
      classes,
      breathe,
    );
  const rights = (by: LinearHead, which: readonly number[]): number =>
    which.filter((k) => argmax(probabilities(by, features[k] ?? new Float32Array())) === labels[k])
      .length;
  const all = [...labels.keys()];
  const held = heldOutMask(labels);
  const tested = all.filter((k) => held[k]);
  const linear = await fitted(all);
  const without = tested.length > 0 ? await fitted(all.filter((k) => !held[k])) : linear;
  if (!isWanted()) throw new TrainingSuperseded();
  const heldCount = tested.length;
  return { linear, right: rights(linear, all), heldRight: rights(without, tested), heldCount };
}
