// Trainings run by code of a room.
import { attached, type Runs } from "../attached.ts";

/** Follows `state.training` and trains by `state.trainer`; returns what ends that. */
export type RunTraining = Runs;

export const { offer: offerTraining, attach: attachTraining } = attached();
