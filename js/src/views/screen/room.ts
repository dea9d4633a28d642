// A picture of a view as it is on screen: the browser draws it again out of a copy that holds everything in itself.
export { pictureOf } from "./picture.ts";
export const style = "";
