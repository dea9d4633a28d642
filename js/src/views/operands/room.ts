// Explain of numbers that come from elsewhere as they are, go one by one, or are joined along axes; as a room.
export { Operands } from "./cards.tsx";
export { Joined } from "./joined.tsx";
export { default as style } from "./style.css";
