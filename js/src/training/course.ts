// The Course of a training, out of its blob.
import type { TrainingHost } from "../state/training.ts";
import type { Course, TrainingRecord } from "../training.ts";

export const courseOf = async (
  blob: TrainingHost["blob"],
  { course }: TrainingRecord,
): Promise<Course> => JSON.parse(new TextDecoder().decode(await blob(course)));
