// Explain's receptive and projective fields, as a room.
export { default as style } from "./style.css";
export { FieldPictures } from "./view.tsx";
