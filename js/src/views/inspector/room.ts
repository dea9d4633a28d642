// One channel large, beside the grid of a layer's channels; its style sheet is the core's, which narrow.css changes.
export { Inspector } from "./inspector.tsx";
export const style = "";
