// Explain of layers that give maps of another size: pools, upsampling, transposed convolutions; as a room.
export { PoolPicture } from "./pools.tsx";
export { Resized } from "./resized.tsx";
export { default as style } from "./style.css";
export { Transposed } from "./transposed.tsx";
