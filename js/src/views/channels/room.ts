// Maps of a layer; the style sheets are the core's, which narrow.css changes.
export { MapsView } from "./view.tsx";
export const style = "";
