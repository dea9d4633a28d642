// Loads the config of a training from its blob.

import type { TrainingConfig, TrainingRecord } from "./records.ts";
import type { TrainingHost } from "./state.ts";

export const fetchTrainingConfig = async (
  blob: TrainingHost["blob"],
  { config }: TrainingRecord,
): Promise<TrainingConfig> => JSON.parse(new TextDecoder().decode(await blob(config)));
