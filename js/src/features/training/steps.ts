// What a training's Plan computes: a step, what is held out, predictions. Each works with a session.
import type { Session } from "../../plan/runtime.ts";
import { addNoise, batchOf, chosen, scalarsOf } from "./batches.ts";
import { type Given, rateOf } from "./dataset.ts";
import type { Fixed } from "./fixed_examples.ts";

export interface StepAsked {
  /** Steps done before. */
  readonly step: number;
  readonly lr: number;
  readonly noise: number;
  /** Whether ratios and dead units are wanted. */
  readonly measured: boolean;
}

export interface StepGave {
  readonly loss: number;
  /** The share of right answers; NaN where targets are no classes. */
  readonly accuracy: number;
  /** A number that is finite where all parameters are. */
  readonly check: number;
  /** Of the batch. */
  readonly examples: readonly number[];
  /** The scalars that it was given, by what they are. */
  readonly numbers: ReadonlyMap<string, number>;
}

/** What is told of steps that nothing is wrong with. */
export const NOTHING_FAILED = {
  failed: [],
  numbers: {},
  paused: false,
  elsewhere: false,
} as const;

/** Computes a step; it counts once the session commits. */
export async function runStep(session: Session, given: Given, asked: StepAsked): Promise<StepGave> {
  const { course, rows } = given;
  const { step, measured } = asked;
  const examples = chosen(course, step);
  const batch = batchOf(rows, examples, course.batch, course.inputs);
  addNoise(batch, course, asked.noise, step);
  for (const [key, data] of batch.inputs) session.write(key, data);
  const numbers = scalarsOf(course, rateOf(given, asked.lr, step), step);
  for (const [what, number] of numbers)
    session.write(course.inputs[what] ?? "", Float32Array.of(number));
  await session.run({ section: measured ? "measure" : "train" });
  const [loss = Number.NaN, check = Number.NaN, right = Number.NaN] = await session.sample(
    course.loss_key,
    [[0, 0, 1]],
  );
  const accuracy = course.accuracy ? right : Number.NaN;
  return { loss, accuracy, check, examples, numbers };
}

/** The loss of some of what is held out, and its share of right answers. */
export async function evaluated(
  session: Session,
  { course, heldOutRows }: Given,
  first: number,
  count: number,
): Promise<readonly [loss: number, share: number]> {
  const examples = Array.from({ length: count }, (_, at) => first + at);
  const { inputs } = batchOf(heldOutRows, examples, course.batch, course.held_out_inputs);
  for (const [key, data] of inputs) session.write(key, data);
  await session.run({ section: "evaluate" });
  const [loss = Number.NaN, share = Number.NaN] = await session.sample(course.held_out_key, [
    [0, 0, 1],
  ]);
  return [loss, share];
}

/** The output for the fixed examples. */
export async function predicted(
  session: Session,
  { course }: Given,
  fixed: Fixed | null,
): Promise<Float32Array> {
  if (fixed === null) return new Float32Array();
  for (const [key, data] of fixed.inputs) session.write(key, data);
  await session.run({ section: "evaluate" });
  return (await session.read(course.prediction)).slice(0, fixed.outputs);
}
