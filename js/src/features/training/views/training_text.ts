// Texts about a training: its loss, its layers, and its status.

import type { TrainingConfig, TrainingRecord } from "../records.ts";
import type { TrainingProgress } from "../state.ts";

const LOSSES: Readonly<Record<string, string>> = {
  mse: "MSE",
  l1: "L1",
  smooth_l1: "Smooth L1",
  bce: "BCE",
  bce_with_logits: "BCE with logits",
  cross_entropy: "Cross entropy",
};

export const lossName = ({ loss }: TrainingConfig): string => LOSSES[loss] ?? loss;

/** The parameters of one layer: "encoder.0" has "encoder.0.weight" and "encoder.0.bias". */
export interface ParameterGroup {
  readonly name: string;
  readonly parameters: readonly string[];
}

/** Group parameters by layer, in order; a parameter without a dot forms its own group. */
export function parameterGroups(parameters: readonly string[]): ParameterGroup[] {
  const found = new Map<string, string[]>();
  for (const name of parameters) {
    const layer = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : name;
    found.set(layer, [...(found.get(layer) ?? []), name]);
  }
  return [...found].map(([name, all]) => ({ name, parameters: all }));
}

/** Groups of all trainable parameters: those trained and those frozen. */
export const trainableGroups = (course: TrainingConfig): ParameterGroup[] =>
  parameterGroups([
    ...course.trained_parameters,
    ...course.frozen.filter((one) => !course.trained_parameters.includes(one)),
  ]);

/** "all layers", "2 of 3 layers". */
export function layersText(groups: readonly ParameterGroup[], frozen: readonly string[]): string {
  const left = groups.filter(({ parameters }) => parameters.some((one) => !frozen.includes(one)));
  const noun = groups.length === 1 ? "layer" : "layers";
  return left.length === groups.length
    ? groups.length === 1
      ? "1 layer"
      : "all layers"
    : `${left.length} of ${groups.length} ${noun}`;
}

/** The number of examples per step, current or requested. */
export const batchSize = (course: TrainingConfig, { batch_size }: TrainingRecord): number =>
  batch_size || course.batch_size;

/** Whether a batch size or frozen layers are requested that differ from the config's, so Python must recompile. */
export const isAwaitingChange = (course: TrainingConfig, record: TrainingRecord): boolean =>
  batchSize(course, record) !== course.batch_size ||
  [...record.frozen].sort().join() !== [...course.frozen].sort().join();

/** The status of a training if it isn't obvious; else "". `alone`: the page has no Python. */
export function statusText(
  progress: TrainingProgress,
  record: TrainingRecord | null,
  alone: boolean,
): string {
  const { phase, message, config } = progress;
  const why = message === "" ? "" : sentence(message);
  const stopped = alone
    ? "Stopped. Reset starts again."
    : "Stopped. viewer.train(…) starts a new training.";
  const mirrored = record?.is_mirror === true;
  switch (phase) {
    case "mirrored":
      return joinTexts("Mirrors a PyTorch training loop in Python.", why);
    case "waiting":
      return joinTexts(
        config !== null && record !== null && isAwaitingChange(config, record)
          ? "Python is compiling the network; training resumes afterwards."
          : "Waiting for the data and the network.",
        why,
      );
    case "hidden":
      return joinTexts("Paused: the page is hidden.", why);
    case "elsewhere":
      return joinTexts(
        "Another page trains this network. The curve and weights here update when it saves.",
        why,
      );
    case "stopped":
      if (mirrored) return joinTexts("The mirror is closed. These are the last weights.", why);
      return joinTexts(stopped, why);
    case "failed":
      return joinTexts("The training failed.", why);
    default:
      return record?.state === "stopped" ? joinTexts(stopped, why) : why;
  }
}

const joinTexts = (...texts: readonly string[]): string =>
  texts.filter((one) => one !== "").join(" ");

const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
