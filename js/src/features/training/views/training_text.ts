// Texts about a training: its loss, its layers, and its status.

import type { TrainingConfig, TrainingRecord } from "../records.ts";
import type { TrainingProgress } from "../state.ts";

const LOSS_NAMES: Readonly<Record<string, string>> = {
  mse: "MSE",
  l1: "L1",
  smooth_l1: "Smooth L1",
  bce: "BCE",
  bce_with_logits: "BCE with logits",
  cross_entropy: "Cross entropy",
};

export const lossName = ({ loss }: TrainingConfig): string => LOSS_NAMES[loss] ?? loss;

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
export const trainableGroups = (config: TrainingConfig): ParameterGroup[] =>
  parameterGroups([
    ...config.trained_parameters,
    ...config.frozen.filter((one) => !config.trained_parameters.includes(one)),
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
export const batchSize = (config: TrainingConfig, { batch_size }: TrainingRecord): number =>
  batch_size || config.batch_size;

/** Whether a batch size or frozen layers are requested that differ from the config's, so Python must recompile. */
export const isAwaitingRecompilation = (config: TrainingConfig, record: TrainingRecord): boolean =>
  batchSize(config, record) !== config.batch_size ||
  [...record.frozen].sort().join() !== [...config.frozen].sort().join();

/** The status of a training if it isn't obvious; else "". `isWithoutPython`: the page has no Python. */
export function statusText(
  progress: TrainingProgress,
  record: TrainingRecord | null,
  isWithoutPython: boolean,
): string {
  const { phase, message, config } = progress;
  const why = message === "" ? "" : asSentence(message);
  const stopped = isWithoutPython
    ? "Stopped. Reset starts again."
    : "Stopped. viewer.train(…) starts a new training.";
  const mirrored = record?.is_mirror === true;
  switch (phase) {
    case "mirrored":
      return joinTexts("Mirrors a PyTorch training loop in Python.", why);
    case "waiting":
      return joinTexts(
        config !== null && record !== null && isAwaitingRecompilation(config, record)
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

const asSentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
