// The Layer tab's Bend, and what other views show of bends, as a room.
export { Everywhere } from "./everywhere.tsx";
export { Mark, Pill, Word } from "./marks.tsx";
export { default as style } from "./style.css";
export { Tools } from "./tools.tsx";
export { BendView } from "./view.tsx";
