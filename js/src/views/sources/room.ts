// The source drawer, what runs sources, and what feeds inputs with pictures.

export { Feeding } from "../../gl/feeding.ts";
export { LiveLegend } from "./legend.tsx";

import style from "./sources.css";

export { style };
