// The Profile tab, and what times layers for it, as a room.

export { profile } from "../../gl/profile.ts";
export { default as style } from "./style.css";
export { ProfileView } from "./view.tsx";
