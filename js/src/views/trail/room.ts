// The way from a number to those that it is made of, as a room.

export { ReadFrom } from "./reads.tsx";
export { default as style } from "./style.css";
export { End, Trail } from "./view.tsx";
