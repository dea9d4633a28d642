// The Compare tab, as a room.
export { Held, Ranges, Wiped } from "./pictures.tsx";
export { default as style } from "./style.css";
export { CompareView } from "./view.tsx";
