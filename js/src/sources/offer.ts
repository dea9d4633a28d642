// Sources run by code of a room.
import { attached, type Runs } from "../attached.ts";

/** Follows `state.source` and feeds by `state.feeder`; returns what ends that. */
export type RunSources = Runs;

export const { offer: offerSources, attach: attachSources } = attached();
