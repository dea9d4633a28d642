// Explain of attention: one pair of tokens, its softmax row and the weighted sum, as a room.
export { default as style } from "./style.css";
export { AttentionPicture } from "./view.tsx";
