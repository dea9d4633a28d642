// A view in the whole window, for a projector; and a picture of it as it is on screen: the browser draws it again out of
// a copy that holds everything in itself.
export { pictureOf } from "./picture.ts";
export { watchPresenting } from "./present.ts";
export { default as style } from "./style.css";
