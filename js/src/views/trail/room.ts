// The way from a number to those that it is made of, as a room.

export { beforeLayout } from "../../explain/origin.ts";
export { Going, LaidOut } from "./reads.tsx";
export { pairText } from "./steps.ts";
export { default as style } from "./style.css";
export { End, Trail } from "./view.tsx";
