// The Compare tab, as a room.
export { default as style } from "./style.css";
export { CompareView } from "./view.tsx";
