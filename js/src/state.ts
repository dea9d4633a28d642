// The state that views read and change: one set of signals per viewer, in slices from state/, the engine and the
// features.
import { createSignals, type EngineSignals } from "./engine/signals.ts";
import { type ClassState, classState } from "./state/classes.ts";
import { type ColorState, colorState } from "./state/colors.ts";
import { type ConnectionState, connectionState } from "./state/connection.ts";
import { type CostState, costState } from "./state/costs.ts";
import { type EditState, editState } from "./state/edits.ts";
import { type InputState, inputState } from "./state/input.ts";
import { type NetworkViewState, networkViewState } from "./state/network_view.ts";
import { type PresentationState, presentationState } from "./state/presentation.ts";
import { type PythonState, pythonState } from "./state/python.ts";
import { type SelectionState, selectionState } from "./state/selection.ts";
import { type WeightState, weightState } from "./state/weights.ts";

export type { ColorLimits, RangeMode } from "./state/colors.ts";
export type { ParityResult } from "./state/connection.ts";
export type { CostMetric, LayerTimes } from "./state/costs.ts";
export type { Camera, NetworkLayout } from "./state/network_view.ts";
export type {
  ChannelOrder,
  ComparedChannels,
  ExplainStep,
  ExplainTrail,
  LayerSection,
  Pixel,
  Selection,
  TabName,
} from "./state/selection.ts";

/** The shared state of one viewer's views; a feature's state.ts adds its own slice. */
export interface ViewerState
  extends EngineSignals,
    ConnectionState,
    SelectionState,
    ColorState,
    NetworkViewState,
    CostState,
    EditState,
    ClassState,
    InputState,
    PresentationState,
    PythonState,
    WeightState {}

/** Create the signals of a viewer with these features; a signal that a feature also defines is the feature's. */
export const createState = (
  features: readonly { state?(): object }[],
  signals = createSignals(),
): ViewerState =>
  Object.assign(
    {
      ...signals,
      ...connectionState(),
      ...selectionState(),
      ...colorState(),
      ...networkViewState(),
      ...costState(),
      ...editState(),
      ...classState(),
      ...inputState(),
      ...presentationState(),
      ...pythonState(),
      ...weightState(),
    },
    ...features.map((feature) => feature.state?.()),
  );
