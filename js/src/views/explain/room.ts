// The Layer tab's Explain, as a room.
export { attentionOf } from "../../explain/attention.ts";
export { default as style } from "./style.css";
export { ExplainView } from "./view.tsx";
