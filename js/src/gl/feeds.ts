// How a runner gets what feeds inputs with pictures: its code may come later than the first one.
import type { Feeding } from "./feeding.ts";
import { later } from "./later.ts";
import { PlanError } from "./types.ts";

export type MakeFeeding = new (...given: ConstructorParameters<typeof Feeding>) => Feeding;

export const {
  offered: offeredFeeding,
  offer: offerFeeding,
  miss: missFeeding,
} = later<MakeFeeding>("pictures cannot be fed");

export const noPictures = (key: string): PlanError =>
  new PlanError(`input ${JSON.stringify(key)} takes no pictures`);
