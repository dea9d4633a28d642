// What a view can see and do: one set of signals per viewer, in slices of one feature each (state/), and of its engine.
import { createSignals, type EngineSignals } from "./engine/signals.ts";
import { type EditState, editState } from "./features/edits/state.ts";
import { type LatentState, latentState } from "./features/latent/state.ts";
import { type SourceState, sourceState } from "./features/sources/state.ts";
import { type TeachingState, teachingState } from "./features/teaching/state.ts";
import { type TrainingState, trainingState } from "./features/training/state.ts";
import { type ClassState, classState } from "./state/classes.ts";
import { type ColorState, colorState } from "./state/colors.ts";
import { type ConnectionState, connectionState } from "./state/connection.ts";
import { type CostState, costState } from "./state/costs.ts";
import { type GraphState, graphState } from "./state/graph.ts";
import { type PresentState, presentState } from "./state/present.ts";
import { type PythonState, pythonState } from "./state/python.ts";
import { type SelectionState, selectionState } from "./state/selection.ts";

export type { ColorLimits, RangeMode } from "./state/colors.ts";
export type { Parity } from "./state/connection.ts";
export type { Cost, Profile } from "./state/costs.ts";
export type { Camera, Form } from "./state/graph.ts";
export type {
  ComparedChannels,
  Order,
  Pixel,
  Section,
  Selection,
  Step,
  TabName,
  Trail,
} from "./state/selection.ts";

/** Everything that views of one viewer share: a feature adds its slice. */
export interface ViewerState
  extends EngineSignals,
    ConnectionState,
    SelectionState,
    ColorState,
    GraphState,
    CostState,
    EditState,
    ClassState,
    LatentState,
    PresentState,
    PythonState,
    SourceState,
    TeachingState,
    TrainingState {}

export const createState = (signals = createSignals()): ViewerState => ({
  ...signals,
  ...connectionState(),
  ...selectionState(),
  ...colorState(),
  ...graphState(),
  ...costState(),
  ...editState(),
  ...classState(),
  ...latentState(),
  ...presentState(),
  ...pythonState(),
  ...sourceState(),
  ...teachingState(),
  ...trainingState(),
});
