// The Profile tab, as a room.
export { default as style } from "./style.css";
export { ProfileView } from "./view.tsx";
