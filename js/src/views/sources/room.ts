// The source drawer, what the bar shows of sources, what runs them, and what feeds inputs with pictures.
import style from "./sources.css";

export { Feeding } from "../../gl/feeding.ts";
export { runSources } from "../../sources/run.ts";
export { Chosen } from "./chosen.tsx";
export { Drawer } from "./drawer.tsx";
export { LiveLegend } from "./legend.tsx";
export { Playing } from "./playing.tsx";
export { style };
