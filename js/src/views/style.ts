// The style sheet: that of each component, in the order in which later rules win; charts before what changes them.

import charts from "uplot/dist/uPlot.min.css";
import editStack from "../features/edits/views/stack.css";
import bendView from "../features/edits/views/style.css";
import keepView from "../features/export/views/style.css";
import latentView from "../features/latent/views/latent.css";
import sourcesView from "../features/sources/views/sources.css";
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
import manipulateView from "./manipulate/style.css";
import narrow from "./narrow.css";
import operandsView from "./operands/style.css";
import overlayView from "./overlay/style.css";
import panel from "./panel.css";
import picture from "./picture.css";
import python from "./python.css";
import resamplingView from "./resampling/style.css";
import rows from "./rows.css";
import screenView from "./screen/style.css";
import status from "./status.css";
import strip from "./strip.css";
import { TABS } from "./tabs.tsx";
import theme from "./theme.css";
import tooltipView from "./tooltip/style.css";
import trailView from "./trail/style.css";

export const style = [
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
  bendView,
  editStack,
  overlayView,
  sourcesView,
  manipulateView,
  latentView,
  charts,
  ...TABS.map(({ style = "" }) => style),
  screenView,
  keepView,
  helpView,
].join("\n");
