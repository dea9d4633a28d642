// What is listed for whoever asks for help.
import style from "./help.css";

export { KeyList } from "./keys.tsx";
export { style };
