// What a session picks the largest scores out with, as a room: no view, and until it is here all scores are brought.

export { Scores } from "../../gl/scores.ts";
export const style = "";
