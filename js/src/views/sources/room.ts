// The source drawer, what the bar shows of sources, and what runs them.
import style from "./sources.css";

export { runSources } from "../../sources/run.ts";
export { Chosen } from "./chosen.tsx";
export { Drawer } from "./drawer.tsx";
export { Playing } from "./playing.tsx";
export { style };
