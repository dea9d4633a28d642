// The core's style sheet: that of each component, in the order in which later rules win.
import bar from "./bar.css";
import costs from "./costs.css";
import forms from "./forms.css";
import grid from "./grid.css";
import help from "./help.css";
import imageRange from "./image_range.css";
import inspector from "./inspector.css";
import layer from "./layer.css";
import list from "./list.css";
import narrow from "./narrow.css";
import panel from "./panel.css";
import picture from "./picture.css";
import python from "./python.css";
import rows from "./rows.css";
import status from "./status.css";
import strip from "./strip.css";
import theme from "./theme.css";

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
].join("\n");
