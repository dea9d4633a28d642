// What of a session's code may come later than the first picture, besides edits: what feeds inputs, what times layers.
import type { Feeding } from "./feeding.ts";
import { later } from "./later.ts";
import type { profile } from "./profile.ts";
import type { Scores } from "./scores.ts";
import { PlanError } from "./types.ts";

export type MakeFeeding = new (...given: ConstructorParameters<typeof Feeding>) => Feeding;
export type MakeScores = new (...given: ConstructorParameters<typeof Scores>) => Scores;
export type Profiling = typeof profile;

export const {
  offered: offeredFeeding,
  offer: offerFeeding,
  miss: missFeeding,
} = later<MakeFeeding>("pictures cannot be fed");

export const { offered: offeredProfile, offer: offerProfile } = later<Profiling>("");

export const { here: scoresHere, offer: offerScores } = later<MakeScores>("");

export const noPictures = (key: string): PlanError =>
  new PlanError(`input ${JSON.stringify(key)} takes no pictures`);
