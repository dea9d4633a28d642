// What is told of the place under the pointer.
export { default as style } from "./style.css";
export { Tooltip } from "./tooltip.tsx";
