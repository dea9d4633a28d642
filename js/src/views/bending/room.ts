// What a session edits with, as a room: no view, but most networks are shown long before somebody edits them.

export { Edits } from "../../gl/edits.ts";
export const style = "";
