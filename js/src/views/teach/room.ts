// The Teach tab, as a room, and what teaches.
export { default as style } from "./style.css";
export { TeachView } from "./view.tsx";
