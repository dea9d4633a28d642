// What lies half-transparent over the input's picture: the classes of a segmentation, the map of a channel.
export { Classes, Shares } from "./classes.tsx";
export { Over } from "./over.tsx";
export { default as style } from "./style.css";
