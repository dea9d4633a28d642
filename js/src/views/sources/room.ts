// The source drawer, what runs sources, and what feeds inputs with pictures.

export { Feeding } from "../../gl/feeding.ts";

import style from "./sources.css";

export { style };
