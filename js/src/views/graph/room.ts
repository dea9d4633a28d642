// The graph of the Network tab, as a room.
export { Graph } from "./graph.tsx";
export { default as style } from "./style.css";
