// The style sheet: one part per component, in cascade order, features last.

import type { Feature } from "../features/feature.ts";
import attentionView from "./attention/style.css";
import grid from "./channel_grid.css";
import costs from "./costs.css";
import explainView from "./explain/style.css";
import trailView from "./explain_trail/style.css";
import filtersView from "./filters/style.css";
import graphView from "./graph/style.css";
import helpView from "./help/help.css";
import help from "./help.css";
import imageRange from "./image_range.css";
import inspector from "./inspector.css";
import layerView from "./layer/style.css";
import layer from "./layer.css";
import panel from "./layer_panel.css";
import narrow from "./narrow.css";
import forms from "./network_tab.css";
import operandsView from "./operands/style.css";
import overlayView from "./overlay/style.css";
import profileView from "./profile/style.css";
import python from "./python_layers.css";
import fieldsView from "./receptive_fields/style.css";
import resamplingView from "./resampling/style.css";
import screenView from "./screen/style.css";
import list from "./stage_list.css";
import rows from "./stage_rows.css";
import status from "./status_line.css";
import strip from "./strip.css";
import theme from "./theme.css";
import bar from "./toolbar.css";
import tooltipView from "./tooltip/style.css";
import picture from "./value_picture.css";
import kindsView from "./value_views/style.css";

const STYLES = [
  theme,
  bar,
  picture,
  strip,
  rows,
  list,
  help,
  imageRange,
  panel,
  layer,
  grid,
  inspector,
  status,
  forms,
  costs,
  python,
  narrow,
  tooltipView,
  kindsView,
  graphView,
  layerView,
  filtersView,
  explainView,
  fieldsView,
  resamplingView,
  attentionView,
  trailView,
  operandsView,
  overlayView,
  profileView,
  screenView,
  helpView,
];

export const styleOf = (features: readonly Feature[]): string =>
  [...STYLES, ...features.flatMap(({ styles = [] }) => styles)].join("\n");
