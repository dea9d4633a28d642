// The room's style sheet: that of the charts' package, and ours, which changes it.
import charts from "uplot/dist/uPlot.min.css";
import own from "./style.css";

export const style = `${charts}\n${own}`;
