// Keeps what is seen, as files: pictures as PNG, the live output as a video.
export { Keep } from "./keep.tsx";
export { default as style } from "./style.css";
