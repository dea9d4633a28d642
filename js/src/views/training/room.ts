// What trains in the page.
export { runTraining } from "../../training/run.ts";
export const style = "";
