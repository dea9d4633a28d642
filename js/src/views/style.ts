// The style sheet: that of each component, in the order in which later rules win; those of features last.

import type { Feature } from "../features/feature.ts";
import attentionView from "./attention/style.css";
import bar from "./bar.css";
import costs from "./costs.css";
import explainView from "./explain/style.css";
import fieldsView from "./fields/style.css";
import filtersView from "./filters/style.css";
import forms from "./forms.css";
import graphView from "./graph/style.css";
import grid from "./grid.css";
import helpView from "./help/help.css";
import help from "./help.css";
import imageRange from "./image_range.css";
import inspector from "./inspector.css";
import kindsView from "./kinds/style.css";
import layerView from "./layer/style.css";
import layer from "./layer.css";
import list from "./list.css";
import narrow from "./narrow.css";
import operandsView from "./operands/style.css";
import overlayView from "./overlay/style.css";
import panel from "./panel.css";
import picture from "./picture.css";
import profileView from "./profile/style.css";
import python from "./python.css";
import resamplingView from "./resampling/style.css";
import rows from "./rows.css";
import screenView from "./screen/style.css";
import status from "./status.css";
import strip from "./strip.css";
import theme from "./theme.css";
import tooltipView from "./tooltip/style.css";
import trailView from "./trail/style.css";

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
