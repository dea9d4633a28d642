// The source drawer, and what runs sources.
import style from "./sources.css";

export { style };
