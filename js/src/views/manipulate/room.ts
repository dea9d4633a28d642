// What is done to the network's picture before it enters, as a column for the drawer of sources: a room.
export { default as style } from "./style.css";
export { Manipulations } from "./view.tsx";
