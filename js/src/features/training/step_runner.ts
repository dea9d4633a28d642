// Computations of a training's Plan in a session: a step, the held-out loss, predictions.
import type { Session } from "../../plan/runtime.ts";
import { addNoise, batchExamples, makeBatch, stepScalars } from "./batches.ts";
import { type Dataset, learningRate } from "./dataset.ts";
import type { FixedExamples } from "./fixed_examples.ts";

export interface StepRequest {
  /** Number of steps done before. */
  readonly step: number;
  readonly lr: number;
  readonly inputNoiseStd: number;
  /** Whether to compute update ratios and dead units. */
  readonly needsMeasurements: boolean;
}

export interface StepResult {
  readonly loss: number;
  /** The accuracy; NaN if the targets are not classes. */
  readonly accuracy: number;
  /** A number that is finite if all parameters are finite. */
  readonly finiteCheck: number;
  /** Indices of the examples in the batch. */
  readonly exampleIndices: readonly number[];
  /** The scalar inputs of the step, by their names. */
  readonly scalars: ReadonlyMap<string, number>;
}

/** The failure fields of a report for steps without a problem. */
export const NO_FAILURE = {
  failed_examples: [],
  step_scalars: {},
  paused: false,
  is_remote: false,
} as const;

/** Compute a step; it takes effect when the session commits. */
export async function runStep(
  session: Session,
  dataset: Dataset,
  request: StepRequest,
): Promise<StepResult> {
  const { config, trainRows } = dataset;
  const { step, needsMeasurements } = request;
  const exampleIndices = batchExamples(config, step);
  const batch = makeBatch(trainRows, exampleIndices, config.batch_size, config.inputs);
  addNoise(batch, config, request.inputNoiseStd, step);
  for (const [key, data] of batch.inputs) session.write(key, data);
  const scalars = stepScalars(config, learningRate(dataset, request.lr, step), step);
  for (const [what, number] of scalars)
    session.write(config.inputs[what] ?? "", Float32Array.of(number));
  await session.run({ section: needsMeasurements ? "measure" : "train" });
  const [loss = Number.NaN, finiteCheck = Number.NaN, right = Number.NaN] = await session.sample(
    config.loss_key,
    [[0, 0, 1]],
  );
  const accuracy = config.has_accuracy ? right : Number.NaN;
  return { loss, accuracy, finiteCheck, exampleIndices, scalars };
}

/** The loss and accuracy of one batch of held-out examples. */
export async function evaluateBatch(
  session: Session,
  { config, heldOutRows }: Dataset,
  firstExample: number,
  exampleCount: number,
): Promise<readonly [loss: number, share: number]> {
  const examples = Array.from({ length: exampleCount }, (_, at) => firstExample + at);
  const { inputs } = makeBatch(heldOutRows, examples, config.batch_size, config.held_out_inputs);
  for (const [key, data] of inputs) session.write(key, data);
  await session.run({ section: "evaluate" });
  const [loss = Number.NaN, accuracy = Number.NaN] = await session.sample(config.held_out_key, [
    [0, 0, 1],
  ]);
  return [loss, accuracy];
}

/** Compute the output for the fixed examples. */
export async function predictFixedExamples(
  session: Session,
  { config }: Dataset,
  fixedExamples: FixedExamples | null,
): Promise<Float32Array> {
  if (fixedExamples === null) return new Float32Array();
  for (const [key, data] of fixedExamples.inputs) session.write(key, data);
  await session.run({ section: "evaluate" });
  return (await session.read(config.prediction_key)).slice(0, fixedExamples.outputLength);
}
