// What Explain gives to its further rooms: their code comes apart, and no room can import another one's.
export { nameOf } from "../../explain/explanation.ts";
export { formulaOf } from "../../explain/formula.ts";
export { dense } from "../../explain/products.ts";
export { readOf } from "../../explain/read.ts";
export { softmax } from "../../explain/softmax.ts";
export { spansOf } from "../../explain/window.ts";
export { Card } from "./card.tsx";
export { useShown, useSigned } from "./colors.ts";
export { Contributions } from "./contributions.tsx";
export { Ends, GAP } from "./ends.tsx";
export { Figure, Matrix } from "./matrix.tsx";
export { Added, asShown, Num } from "./number.tsx";
export { mapSize, OneMap } from "./pixel.tsx";
export { Channels } from "./sums.tsx";
export {
  cellIn,
  Equation,
  inputs,
  MOST_TAPS,
  mostOf,
  noteOf,
  results,
  weights,
} from "./taps.tsx";
