// The Train tab, as a room: its chart brings a package of its own.
export { style } from "./style.ts";
export { TrainView } from "./view.tsx";
export { Wrong } from "./wrong.tsx";
