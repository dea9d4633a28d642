// The Course of a training, out of its blob.

import type { Course, TrainingRecord } from "./records.ts";
import type { TrainingHost } from "./state.ts";

export const fetchTrainingConfig = async (
  blob: TrainingHost["blob"],
  { course }: TrainingRecord,
): Promise<Course> => JSON.parse(new TextDecoder().decode(await blob(course)));
